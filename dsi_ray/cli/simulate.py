"""``dsi-ray simulate``: the paper's figures and tables."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dsi_ray.cli.context import context
from dsi_ray.cli.terminal.figures import (
    Columns,
    Out,
    Seed,
    check_outputs,
    print_rows,
    report,
    save_grid,
    save_heatmaps,
    save_table,
    with_progress,
)
from dsi_ray.cli.terminal.json_file import STDOUT, JsonCommand, JsonFile, check_writable, write_json

_HEATMAP_COLUMNS: Columns = {
    "": ("name", "s"),
    "cells": ("cells", "d"),
    "SI/non-SI\npink": ("SI / non-SI", "d"),
    "DSI/SI\npink": ("DSI / SI", "d"),
    "DSI/non-SI\npink": ("DSI / non-SI", "d"),
    "DSI/min\npink": ("DSI / min(SI, non-SI)", "d"),
}
_TABLE_COLUMNS: Columns = {
    "target": ("target", "s"),
    "dataset": ("dataset", "s"),
    "DSI\ns": ("dsi_s", ".2f"),
    "DSI/\nbound": ("measured_over_bound", ".3f"),
    "DSI/\nSI": ("measured_dsi_over_si", ".2f"),
    "/ideal\nSI": ("measured_dsi_over_si_bound", ".2f"),
    "ideal": ("bound_dsi_over_si", ".2f"),
    "paper": ("dsi_over_si", ".2f"),
    "DSI/\nnon-SI": ("measured_dsi_over_non_si", ".2f"),
    "msgs/\ntoken": ("messages_per_token", ".1f"),
    "CPU ms/\ntoken": ("cpu_ms_per_token", ".1f"),
}
_GRID_COLUMNS: Columns = {
    "drafter": ("drafter", ".0%"),
    "acceptance": ("acceptance", ".0%"),
    "SP": ("sp_degree", "d"),
    "DSI/non-SI": ("dsi_over_non_si", ".3f"),
    "DSI/SI": ("dsi_over_si", ".3f"),
    "SI slower than\nnon-SI": ("si_fails", ""),
    "messages\n/token": ("messages_per_token", ".1f"),
}
_JITTER_COLUMNS: Columns = {
    "target": ("target", "s"),
    "dataset": ("dataset", "s"),
    "adaptive\ns": ("adaptive_s", ".3f"),
    "best fixed\nlookahead": ("best_lookahead", "d"),
    "adaptive/\nbest": ("adaptive_over_best", ".3f"),
}
_LOAD_COLUMNS: Columns = {
    "load": ("load", ".2f"),
    "requests\n/s": ("requests_per_second", ".1f"),
    "non-SI\ns": ("non-SI latency_s", ".2f"),
    "SI\ns": ("SI latency_s", ".2f"),
    "DSI\ns": ("DSI latency_s", ".2f"),
    "DSI/\nnon-SI": ("DSI/non-SI latency", ".2f"),
    "DSI/\nSI": ("DSI/SI latency", ".2f"),
    "DSI\ntokens/s": ("DSI tokens_per_second", ".0f"),
    "of the\nbest": ("DSI/best throughput", ".2f"),
}

app = typer.Typer(
    name="simulate",
    help="Repeat the paper's figures and tables, in virtual time or on Ray.",
)
app.command(cls=JsonCommand)(context)

_FIGURES = (
    ("figure_2", "Figure 2: SI at its best, DSI at SP 7", None),
    ("figure_7", "Figure 7: lookahead 5", 5),
)
"""File name, title and lookahead."""


@app.command()
def timeline(
    file: Annotated[
        Path,
        typer.Argument(help="Picture to write; its suffix chooses the format: .png, .svg or .pdf."),
    ],
    sp_degree: Annotated[int, typer.Option(help="Target servers of the panel for DSI.", min=2)] = 3,
) -> None:
    """Draw which server computes what and when, for non-SI, SI and DSI on one text."""
    from dsi_ray.experiments.plots import pyplot
    from dsi_ray.experiments.virtual.timeline import draw_timeline

    check_writable(file)
    pyplot()
    draw_timeline(file, sp_degree)


@app.command(cls=JsonCommand)
def heatmap(
    out: Out = None,
    resolution: Annotated[
        int, typer.Option(help="Cells a side of the closed-form figures.", min=1)
    ] = 100,
    coarse: Annotated[
        int, typer.Option(help="Cells a side of the virtual-time figures.", min=1)
    ] = 10,
    texts: Annotated[int, typer.Option(help="Texts of each virtual-time cell.", min=1)] = 4,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Figures 2 and 7: speedups over drafter latency and acceptance rate.

    Computes them twice, in closed form and in virtual time, and prints in how many cells DSI or SI
    is slower than its baseline. With --out it draws them; such cells are pink.
    """
    from dsi_ray.experiments.virtual import heatmap as figure

    check_outputs(out, json_file)
    results: dict[str, Any] = {}
    for name, title, lookahead in _FIGURES:
        fine = figure.closed_form_grid(resolution, lookahead)
        cells = figure.closed_form_grid(coarse, lookahead)
        comparisons = with_progress(
            f"{title}, virtual time",
            len(cells),
            partial(figure.compare_grid, cells, texts, seed),
        )
        virtual = [comparison.virtual_time for comparison in comparisons]
        results[name] = {
            "closed_form": figure.summary(fine),
            "virtual_time": figure.summary(virtual),
            "largest_difference": figure.largest_differences(comparisons),
        }
        if out is not None:
            save_heatmaps(out, name, title, {"closed_form": fine, "virtual_time": virtual})
    if json_file != STDOUT:
        _print_heatmaps(results)
    write_json(results, json_file)


def _print_heatmaps(results: dict[str, Any]) -> None:
    rows = [
        {"name": f"{title.partition(':')[0]}, {kind.replace('_', ' ')}", **results[name][kind]}
        for name, title, _ in _FIGURES
        for kind in ("closed_form", "virtual_time")
    ]
    flat = [{**row, **row["slower"]} for row in rows]
    print_rows("Cells slower than their baseline", flat, _HEATMAP_COLUMNS)
    for name, title, _ in _FIGURES:
        worst = max(results[name]["largest_difference"].values())
        typer.echo(f"{title}: closed form and virtual time differ by at most {worst:.1%}.")


@app.command(cls=JsonCommand)
def table(
    traces: Annotated[int, typer.Option(help="Texts for each row of the table.", min=1)] = 20,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.", min=1)] = 50,
    out: Out = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Table 2: the paper's ten pairs, and faster ones, on Ray.

    The actors are real, their forwards are timed waits. DSI/bound compares the measured time with
    that of the same decoder in virtual time, where messages are free: what is above 1 is the price
    of messages.
    """
    from dsi_ray.experiments.online.online import cluster
    from dsi_ray.experiments.online.paper_table import PAPER_ROWS, TODAY_ROWS, measure_row

    check_outputs(out, json_file)
    pairs = PAPER_ROWS + TODAY_ROWS
    with cluster():
        rows = with_progress(
            "Decoding",
            2 * traces * len(pairs),
            lambda step: [measure_row(row, traces, seed, tokens, step) for row in pairs],
        )
    report("Table 2 of the paper on Ray, SP 7", rows, _TABLE_COLUMNS, json_file, out, "table_2")
    if out is not None:
        save_table(out, rows)


@app.command(cls=JsonCommand)
def grid(
    target_ms: Annotated[
        float, typer.Option(help="Time of a target forward, in milliseconds.")
    ] = 30.0,
    traces: Annotated[int, typer.Option(help="Texts for each cell.", min=1)] = 3,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.", min=1)] = 50,
    out: Out = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Check that DSI is never slower, for drafters of any speed and accuracy.

    Runs on Ray actors whose forwards are timed waits, at SP 1, 2 and 7.
    """
    from dsi_ray.experiments.online import grid as experiment

    check_outputs(out, json_file)
    cells = len(experiment.DRAFTERS) * len(experiment.ACCEPTANCES) * len(experiment.SP_DEGREES)
    rows = with_progress(
        "Decoding",
        cells,
        lambda step: experiment.measure_grid(target_ms, traces, seed, tokens, step),
    )
    report("DSI against non-SI and SI", rows, _GRID_COLUMNS, json_file, out, "grid")
    if out is not None:
        save_grid(out, rows)


@app.command(cls=JsonCommand)
def jitter(
    amount: Annotated[
        float,
        typer.Option(
            help="Standard deviation of a target forward's time, relative to its mean.",
            min=0,
            max=0.99,
        ),
    ] = 0.2,
    sp_degree: Annotated[int, typer.Option(help="Number of target servers.", min=1)] = 7,
    traces: Annotated[int, typer.Option(help="Texts for each row of the table.", min=1)] = 20,
    out: Out = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Compare the adaptive lookahead with every fixed one, for noisy targets in virtual time."""
    from dsi_ray.experiments.online.paper_table import PAPER_ROWS
    from dsi_ray.experiments.virtual.jitter import study

    def run(step: Callable[[], None]) -> list[dict[str, Any]]:
        rows = []
        for row in PAPER_ROWS:
            rows.append(study(row, amount, sp_degree, traces, seed).as_row())
            step()
        return rows

    check_outputs(out, json_file)
    rows = with_progress("Virtual time", len(PAPER_ROWS), run)
    report(f"Jitter {amount:.0%}, SP {sp_degree}", rows, _JITTER_COLUMNS, json_file, out, "jitter")


@app.command(cls=JsonCommand)
def throughput(
    target_ms: Annotated[
        float, typer.Option(help="Time of a target forward, in milliseconds.")
    ] = 30.0,
    drafter_ms: Annotated[
        float, typer.Option(help="Time of a drafter forward, in milliseconds.")
    ] = 3.0,
    acceptance: Annotated[
        float, typer.Option(help="Share of drafts that are right.", min=0, max=1)
    ] = 0.9,
    devices: Annotated[int, typer.Option(help="Number of devices of the node.", min=2)] = 8,
    knee: Annotated[
        int, typer.Option(help="Tokens that a forward computes in the time of one.", min=1)
    ] = 64,
    slots: Annotated[
        int, typer.Option(help="Most requests that a device computes at once.", min=1)
    ] = 16,
    requests: Annotated[int, typer.Option(help="Requests at each load.", min=2)] = 500,
    out: Out = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Compare DSI with batched SI and batched non-SI, for many requests in virtual time.

    All have the same devices: DSI drafts on one of them, SI has drafter and target on each and
    takes the best lookahead at every turn.
    """
    from dsi_ray.config import Simulation
    from dsi_ray.experiments.virtual import throughput as experiment
    from dsi_ray.experiments.virtual.node import SimulatedNode

    check_outputs(out, json_file)

    def model(milliseconds: float) -> Simulation:
        beyond = milliseconds / knee
        return Simulation(
            tpot_ms=milliseconds, per_token_ms=beyond, knee_tokens=knee, acceptance_rate=acceptance
        )

    node = SimulatedNode(model(target_ms), model(drafter_ms), devices, slots)
    measured = with_progress(
        "Virtual time",
        len(experiment.LOADS) * len(experiment.SYSTEMS),
        lambda step: experiment.measure(node, requests, seed, step),
    )
    rows = [row.as_row() for row in measured]
    title = f"{devices} devices, drafter {drafter_ms / target_ms:.0%}, acceptance {acceptance:.0%}"
    report(f"Latency under load: {title}", rows, _LOAD_COLUMNS, json_file, out, "throughput")
    if out is not None:
        experiment.draw(out / "throughput.png", title, measured)
