"""``dsi-ray plan``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dsi_ray.cli.terminal.figures import Columns, check_outputs, print_rows, save_joint
from dsi_ray.cli.terminal.json_file import STDOUT, JsonFile, write_json
from dsi_ray.config import ConfigError, EngineConfig, load
from dsi_ray.core.planning.expected import Latencies
from dsi_ray.core.planning.joint import Shape, amdahl, joint_plan
from dsi_ray.core.planning.performance_model import (
    PerformanceModel,
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
_JOINT_COLUMNS: Columns = {
    "MP": ("model_parallel", "d"),
    "SP": ("sp_degree", "d"),
    "devices": ("devices", "d"),
    "target\nms": ("target_ms", ".2f"),
    "planned\nlookahead": ("lookahead", "d"),
    "DSI ms\n/token": ("dsi_ms_per_token", ".2f"),
    "over one target\nserver alone": ("over_smallest", ".2f"),
}
_SERIAL = 0.1
"""Of a target forward on one device: kernel launches and the sums between devices, assumed."""


def command(
    target_ms: Annotated[
        float | None, typer.Option(help="Time of a target forward, in milliseconds.", min=0.001)
    ] = None,
    drafter_ms: Annotated[
        float | None, typer.Option(help="Time of a drafter forward, in milliseconds.", min=0.001)
    ] = None,
    acceptance: Annotated[
        float | None, typer.Option(help="Share of drafts that the target accepts.", min=0, max=1)
    ] = None,
    devices: Annotated[
        int, typer.Option(help="Number of devices; one is for the drafter.", min=2)
    ] = 8,
    model_parallel: Annotated[
        int, typer.Option(help="Fewest devices that a target server needs.", min=1)
    ] = 1,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="Measured milliseconds of a target forward by devices of a server. Without it, "
            f"Amdahl's law is assumed with a serial share of {_SERIAL:.0%}.",
            metavar="2:19,4:12",
        ),
    ] = None,
    message_ms: Annotated[
        float, typer.Option(help="Time of a message between processes, in milliseconds.", min=0)
    ] = 0.0,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with simulated models, for what the flags leave out.", metavar="FILE"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Directory for the joint plan, as CSV and PNG files.", metavar="DIR"
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Choose SP degree, lookahead and devices of a target server, for given latencies.

    The first table says what each further target server brings: the smallest lookahead that
    Equation 1 of the paper allows, the one planned, and the expected speed, in virtual time. The
    second compares all ways to share the devices between target servers.

    \b
    dsi-ray plan --target-ms 33 --drafter-ms 2.5 --acceptance 0.6 --devices 8
    dsi-ray plan --target-ms 33 --drafter-ms 2.5 --acceptance 0.6 --scaling 2:19,4:12
    """
    check_outputs(out, json_file)
    target, drafter, accepted = _latencies(config)
    pace = PerformanceModel(
        _given("--target-ms", target_ms, target),
        _given("--drafter-ms", drafter_ms, drafter),
        message_ms,
        accepted if acceptance is None else acceptance,
    )
    pace.proven = pace.acceptance
    figures = _figures(pace, devices, model_parallel, scaling)
    if json_file != STDOUT:
        _print(figures, "assumed" if scaling is None else "measured")
    if out is not None:
        save_joint(out, figures["joint"])
    write_json(figures, json_file)


def _figures(
    pace: PerformanceModel, devices: int, model_parallel: int, scaling: str | None
) -> dict[str, Any]:
    """What to choose, and what to expect of each choice."""
    try:
        affordable = affordable_sp_degree(devices, model_parallel)
    except ValueError as error:
        raise ConfigError(f"--devices {devices} are too few: {error}") from error
    useful = largest_useful_sp_degree(pace.target + pace.message, pace.drafter)
    rows = [_row(pace, sp_degree, model_parallel) for sp_degree in range(1, affordable + 1)]
    targets = amdahl(pace.target, model_parallel, devices, _SERIAL)
    if scaling is not None:
        targets = {model_parallel: pace.target, **_measured(scaling, devices)}
    joint = [_joint_row(shape, pace.target) for shape in joint_plan(pace, devices, targets)]
    return {
        "sp_degree": min(affordable, useful),
        "lookahead": rows[min(affordable, useful) - 1]["lookahead"],
        "largest_useful_sp_degree": useful,
        "si_lookahead": pace.si_lookahead(),
        "rows": rows,
        "joint": joint,
        "best": min(joint, key=lambda row: (row["dsi_ms_per_token"], row["devices"])),
    }


def _print(figures: dict[str, Any], source: str) -> None:
    print_rows("Expected of a long text", figures["rows"], _COLUMNS)
    typer.echo(
        f"Take SP {figures['sp_degree']}, lookahead {figures['lookahead']}: "
        f"more than {figures['largest_useful_sp_degree']} target servers cannot help."
    )
    print_rows(f"SP x MP, {source} scaling of the target", figures["joint"], _JOINT_COLUMNS)
    best = figures["best"]
    typer.echo(
        f"The fastest of these: SP {best['sp_degree']} x MP {best['model_parallel']}, "
        f"{best['dsi_ms_per_token']:.2f} ms a token."
    )


def _row(pace: PerformanceModel, sp_degree: int, model_parallel: int) -> dict[str, Any]:
    """What to expect of an SP degree."""
    latencies = Latencies(pace.target + 2 * pace.message, pace.drafter, pace.acceptance)
    dsi = pace.token(sp_degree)
    return {
        "sp_degree": sp_degree,
        "devices": sp_degree * model_parallel + 1,
        "equation_1_lookahead": smallest_lookahead(
            pace.target + pace.message, pace.drafter, sp_degree
        ),
        "lookahead": pace.plan(sp_degree).lookahead,
        "dsi_ms_per_token": dsi,
        "dsi_over_non_si": pace.target / dsi,
        "dsi_over_si": latencies.si(pace.si_lookahead()) / dsi,
    }


def _joint_row(shape: Shape, smallest: float) -> dict[str, Any]:
    """What to expect of a shape; ``smallest`` is the latency of the smallest target server."""
    return {
        "model_parallel": shape.model_parallel,
        "sp_degree": shape.sp_degree,
        "devices": shape.devices,
        "target_ms": shape.non_si,
        "lookahead": shape.lookahead,
        "dsi_ms_per_token": shape.token,
        "over_smallest": smallest / shape.token,
    }


def _measured(scaling: str, devices: int) -> dict[int, float]:
    """Reads milliseconds by devices of a server, such as ``2:19,4:12``."""
    points = [item.partition(":") for item in scaling.split(",")]
    try:
        measured = {int(count): float(ms) for count, _, ms in points}
    except ValueError:
        raise ConfigError(f"--scaling {scaling}: write devices:milliseconds,...") from None
    if not all(1 <= count < devices and ms > 0 for count, ms in measured.items()):
        raise ConfigError(f"--scaling {scaling}: from 1 to {devices - 1} devices, above 0 ms")
    return measured


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
