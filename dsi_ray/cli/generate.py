"""``dsi-ray generate``."""

import asyncio
import dataclasses
import json
import sys
import uuid
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dsi_ray.cli.terminal.json_file import check_writable, write_json
from dsi_ray.cli.terminal.options import EngineOptions, sampling_params, with_engine_options
from dsi_ray.cli.terminal.progress import starting
from dsi_ray.cli.terminal.shield import shield
from dsi_ray.config import EngineConfig
from dsi_ray.params import SamplingParams

if TYPE_CHECKING:
    from dsi_ray.runtime.client.engine import Engine
    from dsi_ray.runtime.request import Completion, RequestStats


@with_engine_options
def command(
    engine: EngineOptions,
    prompt: Annotated[str, typer.Argument(help="The text to continue; '-' reads stdin.")],
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate.")] = 128,
    stop: Annotated[
        list[str] | None, typer.Option(help="End the text before this string; may be repeated.")
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            help="0 always takes the likeliest token; 1 samples from the target's probabilities."
        ),
    ] = 0.0,
    top_p: Annotated[
        float,
        typer.Option(
            help="Sample from the fewest likeliest tokens whose probabilities add up to this."
        ),
    ] = 1.0,
    top_k: Annotated[
        int, typer.Option(help="Sample from this many likeliest tokens; 0 is all.")
    ] = 0,
    min_p: Annotated[
        float,
        typer.Option(help="Sample from tokens at least this probable, relative to the likeliest."),
    ] = 0.0,
    seed: Annotated[
        int | None,
        typer.Option(help="Gives the same text each time.", show_default="drawn; --json shows it"),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object at the end instead of the text as it comes."
        ),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write a timeline of what each server did, for ui.perfetto.dev.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Print how the target continues PROMPT, token by token.

    A line on stderr says at the end how fast it was and how many drafts were accepted.

    \b
    dsi-ray generate 'def main('
    dsi-ray generate 'The sea is' --target /models/llama-8b --drafter /models/llama-1b
    dsi-ray generate - --max-tokens 64 --json
    """
    config = engine.load(EngineConfig)
    params = sampling_params(
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=seed,
    )
    check_writable(trace)
    text = sys.stdin.read() if prompt == "-" else prompt
    shield(config)

    from dsi_ray.runtime.client.engine import Engine

    with starting():
        running = Engine(config)
    with running:
        completion = asyncio.run(_generate(running, text, params, not as_json, trace))
    if as_json:
        typer.echo(_to_json(completion))
    else:
        typer.echo(_summary(completion.stats), err=True)


async def _generate(
    engine: "Engine", prompt: str, params: SamplingParams, echo: bool, trace: Path | None
) -> "Completion":
    from dsi_ray.runtime.trace.chrome import chrome_trace

    request_id = uuid.uuid4().hex
    completion = await _stream(engine, prompt, params, echo, request_id)
    if trace is not None:
        write_json(chrome_trace(await engine.trace(request_id)), trace)
    return completion


async def _stream(
    engine: "Engine", prompt: str, params: SamplingParams, echo: bool, request_id: str
) -> "Completion":
    from dsi_ray.runtime.client.output_processor import complete

    received = []
    async with aclosing(engine.stream(prompt, params, request_id=request_id)) as chunks:
        async for chunk in chunks:
            received.append(chunk)
            if echo:
                print(chunk.text, end="", flush=True)
    if echo:
        print()
    return complete(received)


def _to_json(completion: "Completion") -> str:
    fields = dataclasses.asdict(completion)
    fields["stats"] |= {
        "acceptance_rate": completion.stats.acceptance_rate,
        "messages_per_token": completion.stats.messages_per_token,
    }
    return json.dumps(fields, ensure_ascii=False)


def _summary(stats: "RequestStats") -> str:
    rate = stats.acceptance_rate
    accepted = "" if rate is None else f", {rate:.0%} of drafts accepted"
    return (
        f"{stats.completion_tokens} tokens in {stats.seconds:.2f} s "
        f"({stats.completion_tokens / stats.seconds:.1f} tokens/s), "
        f"first after {stats.ttft_ms:.0f} ms{accepted}"
    )
