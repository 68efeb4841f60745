"""``dsi-ray bench``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dsi_ray.cli.options import EngineOptions, sampling_params, with_engine_options
from dsi_ray.cli.progress import progress_bar, starting
from dsi_ray.cli.table import print_rows
from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.params import SamplingParams

if TYPE_CHECKING:
    from dsi_ray.experiments.bench import Row
    from dsi_ray.runtime.engine import Engine


@with_engine_options
def command(
    engine: EngineOptions,
    prompts: Annotated[int, typer.Option(help="Number of prompts.", min=1)] = 8,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate for each.")] = 128,
    si_lookahead: Annotated[
        list[int] | None,
        typer.Option(help="Of an SI row; may be repeated. [default: one, as planned]", min=1),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the figures to a file; '-' is stdout.", metavar="FILE"),
    ] = None,
) -> None:
    """Compare non-SI, SI and DSI on the same prompts."""
    config = engine.load(EngineConfig)
    params = sampling_params(max_tokens=max_tokens)
    if json_file is not None:
        _check_writable(json_file)
    from dsi_ray.experiments.bench import report
    from dsi_ray.runtime.engine import Engine

    with starting():
        running = Engine(config)
    with running:
        rows = run(running, prompts, params, si_lookahead or ())
        text = json.dumps(report(rows, running), indent=2)
    if json_file == Path("-"):
        typer.echo(text)
        return
    print_rows(f"{config.target.model}, {prompts} prompts", rows)
    if json_file is not None:
        json_file.write_text(text + "\n")


def run(
    engine: "Engine", count: int, params: SamplingParams, si_lookaheads: Sequence[int] = ()
) -> list["Row"]:
    """Runs the bench and shows on stderr how far it is."""
    from dsi_ray.experiments.bench import Bench, engine_contenders
    from dsi_ray.experiments.prompts import held_out_code

    prompts = [engine.tokenizer.encode(text) for text in held_out_code(count)]
    bench = Bench(list(engine_contenders(engine, si_lookaheads)), prompts, params)
    with progress_bar() as bar:
        task = bar.add_task("Generating", total=bench.steps)
        return bench.run(lambda: bar.advance(task))


def _check_writable(file: Path) -> None:
    """Finds out before the bench, not after it."""
    if file != Path("-") and not file.parent.is_dir():
        raise ConfigError(f"cannot write {file}: there is no directory {file.parent}")
