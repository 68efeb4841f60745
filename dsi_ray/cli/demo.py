"""``dsi-ray demo``: the whole system in a minute or two."""

import json
import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsi_ray.cli import bench
from dsi_ray.cli.terminal.json_file import JsonFile, check_writable, write_json
from dsi_ray.cli.terminal.options import EngineOptions, sampling_params, with_engine_options
from dsi_ray.cli.terminal.progress import starting
from dsi_ray.cli.terminal.shield import shield
from dsi_ray.config import EngineConfig, load
from dsi_ray.experiments.bench.prompts import held_out_code
from dsi_ray.params import SamplingParams
from dsi_ray.serving.config import ServingConfig

if TYPE_CHECKING:
    from dsi_ray.runtime.client.engine import Engine

_NODE = {
    "target": "simulated:tpot_ms=30",
    "drafters": ["simulated:tpot_ms=3,acceptance_rate=0.8"],
    "sp_degree": 7,
}
_NODE_TITLE = "8 devices whose forwards are timed waits: target 30 ms, drafter 3 ms"


@with_engine_options
def command(
    engine: EngineOptions,
    port: Annotated[
        int | None, typer.Option(help="Port of the server.", show_default="a free one")
    ] = None,
    prompts: Annotated[
        int, typer.Option(help="How many prompts to run for each table.", min=1)
    ] = 4,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate for a prompt.")] = 96,
    json_file: JsonFile = None,
) -> None:
    """Serve the built-in models, stream a completion, and compare non-SI, SI and DSI.

    The comparison runs twice: with these models on this machine, and on eight simulated devices
    whose forwards only wait. It needs no GPU and no download, and takes a few minutes.
    """
    config = engine.load(ServingConfig, port=port or _free_port())
    params = sampling_params(max_tokens=max_tokens)
    check_writable(json_file)
    shield(config)
    from dsi_ray.runtime.client.engine import Engine
    from dsi_ray.serving.server import running

    with starting():
        # Starts Ray for all that follows, and ends it.
        own = Engine(config)
    with own:
        with running(config) as url:
            typer.echo(f"Serving {config.model_name} at {url}/v1; a completion, as it comes:\n")
            _stream(url, config.model_name, max_tokens)
        here = _compare(own, prompts, params, f"{config.target.model}, on this machine")
        with Engine(load(EngineConfig, None, _NODE)) as node:
            there = _compare(node, prompts, params, _NODE_TITLE)
    write_json({"this_machine": here, "simulated_node": there}, json_file)


def _compare(engine: "Engine", count: int, params: SamplingParams, title: str) -> dict[str, Any]:
    from dsi_ray.experiments.bench.bench import baselines, dsi

    return bench.compare(engine, [*baselines(engine), dsi(engine)], count, params, title)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        number: int = unused.getsockname()[1]
        return number


def _stream(url: str, model: str, max_tokens: int) -> None:
    from dsi_ray.cli.terminal.http import http_client

    (prompt,) = held_out_code(1)
    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "stream": True}
    typer.secho(prompt, nl=False, bold=True)
    with (
        http_client(url, timeout_s=60) as http,
        http.stream("POST", "/v1/completions", json=body) as answer,
    ):
        answer.raise_for_status()
        for line in answer.iter_lines():
            data = line.removeprefix("data: ")
            if line and data != "[DONE]":
                typer.echo(json.loads(data)["choices"][0]["text"], nl=False)
    typer.echo("\n")
