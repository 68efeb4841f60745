"""The timeline figure: who computes what and when, for non-SI, SI and DSI on one text."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Plan, Request
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.experiments.virtual.virtual_time import Run, VirtualDriver, VirtualModel, VirtualSpan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PROMPT = (0,)
_TOKENS = 24
_TARGET, _DRAFTER = 1.0, 0.24
_REJECTED = (8, 16, 23)
"""Positions at which the drafter is wrong: of all triples the most typical in its times."""

_COLOURS = {
    "draft": "#7aa6da",
    "draft, rejected": "#d6e4f5",
    "target forward": "#2f7d4f",
    "target forward, of no use": "#cfe5d7",
    "cancelled": "#f2a7ae",
}


def draw_timeline(file: Path, sp_degree: int = 3) -> None:
    """Writes the figure; its suffix chooses the format.

    Args:
        file: Where to.
        sp_degree: Target servers of the lower DSI panel.
    """
    from matplotlib import pyplot

    runs = [
        ("non-SI", _run(1, lambda request: NonSI(request))),
        ("SI, lookahead 4", _run(1, lambda request: SI(request, 4))),
        ("DSI, one target server", _run(1, lambda request: DSI(request, Plan(2, 12)))),
        (f"DSI, SP {sp_degree}", _run(sp_degree, lambda request: DSI(request, Plan(2, 12)))),
    ]
    lanes = [len({span.server for span in run.spans}) for _, run in runs]
    figure, panels = pyplot.subplots(
        len(runs), sharex=True, figsize=(9, 0.42 * sum(lanes) + 2.2), height_ratios=lanes
    )
    end = max(run.seconds for _, run in runs)
    for axes, (name, run) in zip(panels, runs, strict=True):
        _draw(axes, run)
        axes.set_title(f"{name}: {run.seconds:g} target forwards' time", loc="left", fontsize=9)
        axes.axvline(run.seconds, color="black", linewidth=1, linestyle=":")
        axes.set_xlim(0, end)
    panels[-1].set_xlabel(f"time for {_TOKENS} tokens, in target forwards")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in _COLOURS.values()]
    figure.legend(
        handles, _COLOURS, loc="lower center", ncols=len(_COLOURS), fontsize=8, frameon=False
    )
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(file)
    pyplot.close(figure)


def _run(sp_degree: int, decoder: Callable[[Request], Decoder]) -> Run:
    """Decodes one text with a target that counts and a drafter that is wrong at times."""
    targets = [ServerId(Role.TARGET, i) for i in range(sp_degree)]
    drafter = ServerId(Role.DRAFTER, 0)
    request = Request("", _PROMPT, StopCriteria(_TOKENS), targets, [drafter])
    target = VirtualModel(len, lambda step: 0.0 if step.start > len(step.tokens) else _TARGET)
    models = dict.fromkeys(targets, target)
    models[drafter] = VirtualModel(
        lambda path: -1 if len(path) in _REJECTED else len(path), lambda step: _DRAFTER
    )
    return VirtualDriver(decoder(request), models)()


def _draw(axes: "Axes", run: Run) -> None:
    lanes = sorted({span.server for span in run.spans}, reverse=True)
    for span in run.spans:
        if span.end > span.begin:
            kind = _kind(span, run)
            axes.broken_barh(
                [(span.begin, span.end - span.begin)],
                (lanes.index(span.server) + 0.12, 0.76),
                facecolor=_COLOURS[kind],
                edgecolor="white",
                linewidth=0.8,
            )
            _label(axes, span, lanes.index(span.server) + 0.5)
    axes.set_yticks([lane + 0.5 for lane in range(len(lanes))], [str(lane) for lane in lanes])
    axes.tick_params(labelsize=8, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _label(axes: "Axes", span: VirtualSpan, height: float) -> None:
    """The positions whose tokens the forward gave."""
    if span.stopped or span.end - span.begin < _TARGET:
        return
    first, last = span.step.start, len(span.step.tokens)
    text = str(first) if first == last else f"{first}-{last}"
    axes.text(
        (span.begin + span.end) / 2,
        height,
        text,
        ha="center",
        va="center",
        fontsize=7,
        color="white",
    )


def _kind(span: VirtualSpan, run: Run) -> str:
    """What became of a forward."""
    final = (*_PROMPT, *run.tokens)
    useful = span.step.tokens[: span.step.start] == final[: span.step.start]
    if span.server.role is Role.DRAFTER:
        right = useful and span.step.start not in _REJECTED
        return "draft" if right else "draft, rejected"
    if span.stopped:
        return "cancelled"
    return "target forward" if useful and span.begin < run.seconds else "target forward, of no use"
