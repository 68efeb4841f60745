"""``dsi-ray serve``."""

import contextlib
import json
import shlex
from typing import Annotated

import typer

from dsi_ray.cli.terminal.options import EngineOptions, Host, Port, with_engine_options
from dsi_ray.cli.terminal.progress import starting
from dsi_ray.cli.terminal.shield import shield
from dsi_ray.serving.config import ServingConfig


@with_engine_options
def command(
    engine: EngineOptions,
    host: Host = None,
    port: Port = None,
    served_model_name: Annotated[
        str | None,
        typer.Option(help="What requests give as 'model'.", show_default="from the target"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="When ready, print one JSON object instead of a hint.")
    ] = False,
) -> None:
    """Serve the OpenAI API until Ctrl-C or SIGTERM.

    Prints an address and an example request once the models are loaded. Open the address in a
    browser to watch drafts being verified. Without arguments it serves the demo pair.

    \b
    dsi-ray serve
    dsi-ray serve --target Qwen/Qwen3-8B --drafter Qwen/Qwen3-1.7B --device cuda
    dsi-ray serve --config deployment.yaml
    """
    config = engine.load(ServingConfig, host=host, port=port, served_model_name=served_model_name)
    shield(config)
    with contextlib.ExitStack() as server:
        with starting():
            from dsi_ray.serving.server import running, stop_signal, text_facts_at

            url = server.enter_context(running(config))
            facts = text_facts_at(url)
        # Before anybody is told that it runs, and may want to end it.
        stop = stop_signal()
        model = config.model_name
        typer.echo(
            json.dumps({"url": url, "model": model}) if as_json else _hint(url, model, facts)
        )
        stop.wait()


def _hint(url: str, model: str, facts: str) -> str:
    body = json.dumps({"model": model, "prompt": "def main():", "max_tokens": 64})
    return (
        f"Serving {model} at {url}/v1 (Ctrl-C stops it). {facts} Try:\n"
        f"  curl {url}/v1/completions -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )
