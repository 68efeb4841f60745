"""``dsi-ray profile``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dsi_ray.cli.terminal.figures import Columns, print_rows
from dsi_ray.cli.terminal.json_file import STDOUT, JsonFile, check_writable, write_json
from dsi_ray.cli.terminal.options import EngineOptions, with_engine_options
from dsi_ray.cli.terminal.progress import starting
from dsi_ray.config import ConfigError, EngineConfig

_COLUMNS: Columns = {
    "": ("name", "s"),
    "TTFT\nms": ("ttft", ".2f"),
    "TPOT\nms": ("tpot", ".2f"),
    "p95\nms": ("p95", ".2f"),
    "jitter": ("jitter", ".0%"),
}


@with_engine_options
def command(
    engine: EngineOptions,
    prompt_file: Annotated[
        Path | None,
        typer.Option(
            help="File with one prompt a line.", show_default="held-out code", metavar="FILE"
        ),
    ] = None,
    prompts: Annotated[int, typer.Option(help="Use at most this many prompts.", min=1)] = 8,
    max_tokens: Annotated[int, typer.Option(help="Tokens to generate for a prompt.", min=3)] = 64,
    servers: Annotated[
        int | None,
        typer.Option(
            help="Plan for at most this many target servers.", show_default="--sp-degree", min=1
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the configuration to this YAML file instead of printing it.", metavar="FILE"
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure a pair of models, and write a configuration that suits it.

    Measures the latencies of target and drafter and how many drafts are accepted, on this machine,
    and plans lookahead and SP degree from them (Equation 1 of the paper).

    \b
    dsi-ray profile --target /models/llama-8b --drafter /models/llama-1b --servers 7
    dsi-ray profile --config deployment.yaml --out planned.yaml
    """
    config = engine.load(EngineConfig)
    check_writable(json_file)
    check_writable(out)
    if not config.drafters:
        raise ConfigError("profile measures a pair: add a --drafter")
    texts = _prompts(prompt_file)[:prompts]
    from dsi_ray.experiments.bench.profile import as_json, profile

    with starting():
        measured = profile(config, texts, max_tokens)
    figures = as_json(measured)
    plan = measured.config(config, servers or config.sp_degree)
    if json_file != STDOUT:
        _print(figures)
        if out is None:
            typer.echo(plan, nl=False)
    if out is not None:
        out.write_text(plan)
    write_json(figures, json_file)


def _print(figures: dict[str, Any]) -> None:
    rows = [{"name": name, **figures[name]} for name in ("target", "drafter")]
    print_rows("As a client sees them", rows, _COLUMNS)
    by_position = " ".join(f"{share:.0%}" for share in figures["acceptance"]["by_position"])
    typer.echo(
        f"Acceptance rate {figures['acceptance']['geometric']:.0%} (geometric fit); "
        f"by place in a turn: {by_position}"
    )


def _prompts(file: Path | None) -> list[str]:
    if file is None:
        from dsi_ray.experiments.bench.prompts import held_out_code

        return held_out_code(64)
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    if not lines:
        raise ConfigError(f"{file} holds no prompt: write one a line")
    return lines
