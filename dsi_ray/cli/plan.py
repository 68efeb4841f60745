"""``dsi-ray plan``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dsi_ray.cli.figures import Columns, print_rows
from dsi_ray.cli.json_file import STDOUT, JsonFile, check_writable, write_json
from dsi_ray.config import ConfigError, EngineConfig, load
from dsi_ray.core.expected import Latencies
from dsi_ray.core.planner import (
    Pace,
    affordable_sp_degree,
    largest_useful_sp_degree,
    smallest_lookahead,
)

_COLUMNS: Columns = {
    "SP": ("sp_degree", "d"),
    "devices": ("devices", "d"),
    "Equation 1\nlookahead": ("equation_1_lookahead", "d"),
    "planned\nlookahead": ("lookahead", "d"),
    "DSI ms\n/token": ("dsi_ms_per_token", ".2f"),
    "DSI/\nnon-SI": ("dsi_over_non_si", ".2f"),
    "DSI/SI": ("dsi_over_si", ".2f"),
}


def command(
    target_ms: Annotated[
        float | None, typer.Option(help="Milliseconds of a target forward.", min=0.001)
    ] = None,
    drafter_ms: Annotated[
        float | None, typer.Option(help="Milliseconds of a drafter forward.", min=0.001)
    ] = None,
    acceptance: Annotated[
        float | None, typer.Option(help="Share of drafts that are right.", min=0, max=1)
    ] = None,
    devices: Annotated[int, typer.Option(help="All there are; one is for the drafter.", min=2)] = 8,
    model_parallel: Annotated[int, typer.Option(help="Devices of a target server.", min=1)] = 1,
    message_ms: Annotated[float, typer.Option(help="Milliseconds of a message.", min=0)] = 0.0,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML file with simulated models; flags override it.", metavar="FILE"),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Choose SP degree and lookahead for the devices at hand (Equation 1)."""
    check_writable(json_file)
    target, drafter, accepted = _latencies(config)
    pace = Pace(
        _given("--target-ms", target_ms, target),
        _given("--drafter-ms", drafter_ms, drafter),
        message_ms,
        accepted if acceptance is None else acceptance,
    )
    pace.proven = pace.acceptance
    try:
        affordable = affordable_sp_degree(devices, model_parallel)
    except ValueError as error:
        raise ConfigError(f"--devices {devices} are too few: {error}") from error
    useful = largest_useful_sp_degree(pace.target + message_ms, pace.drafter)
    rows = [_row(pace, sp_degree, model_parallel) for sp_degree in range(1, affordable + 1)]
    figures = {
        "sp_degree": min(affordable, useful),
        "lookahead": rows[min(affordable, useful) - 1]["lookahead"],
        "largest_useful_sp_degree": useful,
        "si_lookahead": pace.si_lookahead(),
        "rows": rows,
    }
    if json_file != STDOUT:
        print_rows("Expected of a long text", rows, _COLUMNS)
        typer.echo(
            f"Take SP {figures['sp_degree']}, lookahead {figures['lookahead']}: "
            f"more than {useful} target servers cannot help."
        )
    write_json(figures, json_file)


def _row(pace: Pace, sp_degree: int, model_parallel: int) -> dict[str, Any]:
    """What to expect of an SP degree; a message there and one back count to the target."""
    latencies = Latencies(pace.target + 2 * pace.message, pace.drafter, pace.acceptance)
    plan = pace.plan(sp_degree)
    dsi = latencies.dsi(plan.lookahead, sp_degree)
    if sp_degree == 1:
        dsi = latencies.dsi_single(plan.first_block)
    # A target that goes on alone waits for no message.
    dsi = min(dsi, pace.target)
    return {
        "sp_degree": sp_degree,
        "devices": sp_degree * model_parallel + 1,
        "equation_1_lookahead": smallest_lookahead(
            pace.target + pace.message, pace.drafter, sp_degree
        ),
        "lookahead": plan.lookahead,
        "dsi_ms_per_token": dsi,
        "dsi_over_non_si": pace.target / dsi,
        "dsi_over_si": latencies.si(pace.si_lookahead()) / dsi,
    }


def _latencies(config: Path | None) -> tuple[float | None, float | None, float]:
    """Target, drafter and acceptance rate of a configuration with simulated models."""
    if config is None:
        return None, None, 0.8
    loaded = load(EngineConfig, config, {})
    target = loaded.target.simulation
    drafter = loaded.drafters[0].simulation if loaded.drafters else None
    return (
        target.tpot_ms if target else None,
        drafter.tpot_ms if drafter else None,
        drafter.acceptance_rate if drafter else 0.8,
    )


def _given(flag: str, *values: float | None) -> float:
    for value in values:
        if value is not None:
            return value
    raise ConfigError(f"give {flag}, or a --config with simulated models; dsi-ray profile measures")
