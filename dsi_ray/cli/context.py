"""``dsi-ray simulate context``."""

from typing import Annotated

import typer

from dsi_ray.cli.terminal.figures import Columns, Out, check_outputs, report, with_progress
from dsi_ray.cli.terminal.json_file import JsonFile

_COLUMNS: Columns = {
    "tokens of\ncontext": ("context", "d"),
    "DSI\ntokens/s": ("tokens_per_second", ".1f"),
    "of the\nshortest": ("relative", ".3f"),
    "bytes\na task": ("task_bytes", "d"),
}


def context(
    target_ms: Annotated[float, typer.Option(help="Milliseconds of a target forward.")] = 20.0,
    drafter_ms: Annotated[float, typer.Option(help="Milliseconds of a drafter forward.")] = 2.0,
    traces: Annotated[int, typer.Option(help="Texts of each length.", min=1)] = 8,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.", min=2)] = 100,
    out: Out = None,
    json_file: JsonFile = None,
) -> None:
    """Check on real Ray actors that messages and books cost the same at any context length.

    Forwards are timed waits that do not get longer with the context, so that whatever slows
    decoding down at 100,000 tokens is orchestration.
    """
    from dsi_ray.experiments.online.context import CONTEXTS, measure_contexts

    check_outputs(out, json_file)
    rows = with_progress(
        "Decoding",
        traces * len(CONTEXTS),
        lambda step: measure_contexts(target_ms, drafter_ms, traces, tokens, step),
    )
    report("DSI at any length of the context, SP 3", rows, _COLUMNS, json_file, out, "context")
