"""``dsi-ray bench``."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsi_ray.cli.terminal.figures import Columns, print_rows, with_progress
from dsi_ray.cli.terminal.json_file import STDOUT, JsonFile, check_writable, write_json
from dsi_ray.cli.terminal.options import EngineOptions, sampling_params, with_engine_options
from dsi_ray.cli.terminal.progress import progress_bar, starting
from dsi_ray.cli.terminal.shield import shield
from dsi_ray.config import EngineConfig
from dsi_ray.params import SamplingParams

if TYPE_CHECKING:
    from dsi_ray.experiments.bench.bench import Contender, Row
    from dsi_ray.runtime.client.engine import Engine


_COLUMNS: Columns = {
    "": ("name", "s"),
    "tok/s": ("tokens_per_second", ".1f"),
    "speed": ("speed", ""),
    "TTFT\nms": ("ttft_ms", ".0f"),
    "accept.\nrate": ("acceptance_rate", ".0%"),
    "target\nforwards": ("target_forwards", "d"),
    "cancelled\ntasks": ("cancelled_tasks", "d"),
    "messages\n/token": ("messages_per_token", ".1f"),
    "identical\ntokens": ("identical", ""),
}
"""Narrow enough for a terminal of 80 columns; the JSON report holds more."""

_CROWD_COLUMNS: Columns = {
    "requests\nat once": ("concurrency", "d"),
    "tokens\n/s": ("tokens_per_second", ".0f"),
    "times\nthe first": ("speedup", ".2f"),
    "TPOT\nms": ("tpot_ms", ".1f"),
    "messages\n/token": ("messages_per_token", ".2f"),
    "forwards\n/token": ("forwards_per_token", ".2f"),
    "same tokens": ("identical_tokens", ""),
}

_MESSAGE_COLUMNS: Columns = {
    "transport": ("transport", "s"),
    "round trip\nms, median": ("round_trip_ms", ".3f"),
    "99 %\nms": ("slow_ms", ".3f"),
    "processor ms\nof both": ("processor_ms", ".3f"),
}


@with_engine_options
def command(
    engine: EngineOptions,
    prompts: Annotated[int, typer.Option(help="How many prompts to run.", min=1)] = 8,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate for a prompt.")] = 128,
    si_lookahead: Annotated[
        list[int] | None,
        typer.Option(
            help="Add a row for SI with this lookahead; may be repeated.",
            show_default="1 to 8",
            min=1,
        ),
    ] = None,
    two_threads: Annotated[
        bool,
        typer.Option(
            "--two-threads",
            help="Add the baselines with two torch threads a server (rows x2): as many cores as "
            "DSI has.",
        ),
    ] = False,
    with_peers: Annotated[
        bool,
        typer.Option(
            "--peers",
            help="Add transformers' own generate (rows HF), plain and with an assistant model.",
        ),
    ] = False,
    concurrency: Annotated[
        list[int] | None,
        typer.Option(
            help="Instead, run requests of mixed lengths, this many at once; may be repeated.",
            min=1,
        ),
    ] = None,
    messages: Annotated[
        bool,
        typer.Option(
            "--messages", help="Instead, measure what a message between two actors costs."
        ),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Compare non-SI, SI and DSI on the same prompts.

    Every prompt is run by the target alone (non-SI), by SI with each lookahead and by DSI, in
    turns, so that all meet the same noise. The table has tokens a second, the time to the first
    token, how many drafts were accepted, and whether all texts are identical.

    \b
    dsi-ray bench
    dsi-ray bench --prompts 64 --concurrency 1 --concurrency 8
    dsi-ray bench --target /models/llama-8b --drafter /models/llama-1b --sp-degree 3
    """
    config = engine.load(EngineConfig)
    params = sampling_params(max_tokens=max_tokens)
    check_writable(json_file)
    shield(config)
    if messages:
        write_json(_messages(config, json_file != STDOUT), json_file)
        return
    if concurrency:
        write_json(_crowd(config, concurrency, prompts, params, json_file != STDOUT), json_file)
        return
    from dsi_ray.experiments.bench.bench import baselines, dsi, with_threads
    from dsi_ray.runtime.client.engine import Engine

    lookaheads = si_lookahead or range(1, 9)
    with ExitStack() as engines:
        with starting():
            running = engines.enter_context(Engine(config))
            contenders: list[Contender] = [*baselines(running, lookaheads), dsi(running)]
            if two_threads:
                doubled = engines.enter_context(Engine(with_threads(config, 2)))
                contenders += baselines(doubled, lookaheads, " x2")
            if with_peers:
                from dsi_ray.experiments.bench.peers import peers

                contenders += peers(config)
        title = None if json_file == STDOUT else f"{config.target.model}, {prompts} prompts"
        figures = compare(running, contenders, prompts, params, title)
    write_json(figures, json_file)


def _messages(config: EngineConfig, prints: bool) -> dict[str, Any]:
    """Measures messages on both transports, prints the table and returns its figures."""
    from dsi_ray.experiments.bench.bench import environment
    from dsi_ray.runtime.supervisor.host import hosted

    with starting():
        groups = hosted(config)
    with groups as running:
        rows = [asdict(costs) for costs in asyncio.run(running.message_costs())]
    if prints:
        print_rows("A message to a target server and its answer", rows, _MESSAGE_COLUMNS)
    return {"rows": rows, "environment": environment()}


def _crowd(
    config: EngineConfig,
    concurrencies: Sequence[int],
    count: int,
    params: SamplingParams,
    prints: bool,
) -> dict[str, Any]:
    """Runs the same requests with ever more at once, prints the table and returns its figures."""
    from dsi_ray.experiments.bench.bench import environment
    from dsi_ray.experiments.bench.concurrency import measure, mixed
    from dsi_ray.experiments.bench.prompts import held_out_code
    from dsi_ray.runtime.client.engine import Engine
    from dsi_ray.runtime.request import Decoding

    with ExitStack() as engines:
        with starting():
            running = engines.enter_context(Engine(config))
        works = mixed(
            [running.tokenizer.encode(t) for t in held_out_code(count)], params.max_tokens
        )
        measured = with_progress(
            "Generating",
            len(concurrencies) * len(works),
            lambda step: measure(running, works, concurrencies, Decoding.default(config), step),
        )
    rows = [asdict(row) for row in measured]
    if prints:
        title = f"{config.target.model}, {config.algorithm}, {count} requests"
        print_rows(title, rows, _CROWD_COLUMNS)
    return {"rows": rows, "config": config.model_dump(mode="json"), "environment": environment()}


def compare(
    engine: "Engine",
    contenders: "Sequence[Contender]",
    count: int,
    params: SamplingParams,
    title: str | None = None,
) -> dict[str, Any]:
    """Runs the bench, prints its table under ``title`` and returns all its figures."""
    from dsi_ray.experiments.bench.bench import Bench, report
    from dsi_ray.experiments.bench.prompts import held_out_code

    prompts = [engine.tokenizer.encode(text) for text in held_out_code(count)]
    bench = Bench(contenders, prompts, params)
    with progress_bar() as bar:
        task = bar.add_task("Generating", total=bench.steps)
        rows = bench.run(lambda: bar.advance(task))
    if title is not None:
        print_rows(title, _against_the_first(rows), _COLUMNS)
    return report(rows, engine)


def _against_the_first(rows: "Sequence[Row]") -> list[dict[str, Any]]:
    return [
        {
            **asdict(row),
            "speed": f"{row.tokens_per_second / rows[0].tokens_per_second:.2f}x",
            "identical": "yes" if row.identical_tokens else "NO",
        }
        for row in rows
    ]
