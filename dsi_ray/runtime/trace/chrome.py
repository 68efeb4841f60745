"""Traces in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

A process a request, a thread a server; the last thread shows the commits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Literal, NotRequired

# Not typing's: pydantic, which describes these types to clients, needs this before Python 3.12.
from typing_extensions import TypedDict

from dsi_ray.runtime.trace.spans import Commit, Span, SpanOutcome, Trace


class TraceEvent(TypedDict):
    """A complete event (``X``), an instant (``i``) or a name (``M``); times in microseconds."""

    name: str
    ph: Literal["X", "i", "M"]
    pid: int
    tid: int
    args: dict[str, Any]
    cat: NotRequired[str]
    ts: NotRequired[int]
    dur: NotRequired[int]
    s: NotRequired[Literal["t"]]


class TracedRequest(TypedDict):
    """What is known of a request as a whole; ``pid`` tells its events."""

    pid: int
    request: str
    algorithm: str
    prompt_tokens: int
    ms: float
    settled_us: int
    over: bool
    omitted: int
    stats: dict[str, float | list[int] | None] | None


class OtherData(TypedDict):
    """What viewers ignore."""

    requests: list[TracedRequest]


class ChromeTrace(TypedDict):
    """A file of the format."""

    displayTimeUnit: Literal["ms"]
    traceEvents: list[TraceEvent]
    otherData: OtherData


def chrome_trace(traces: Iterable[Trace]) -> ChromeTrace:
    """Returns traces of requests as one file."""
    numbered = list(enumerate(traces, start=1))
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [event for pid, trace in numbered for event in _events(pid, trace)],
        "otherData": {"requests": [_request(pid, trace) for pid, trace in numbered]},
    }


def _events(pid: int, trace: Trace) -> Iterator[TraceEvent]:
    threads = {str(server): tid for tid, server in enumerate(trace.servers, start=1)}
    threads["commits"] = len(threads) + 1
    yield _metadata("process_name", pid, 0, {"name": f"{trace.algorithm} {trace.request}"})
    for name, tid in threads.items():
        yield _metadata("thread_name", pid, tid, {"name": name})
        yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})
    for span in trace.spans:
        yield _complete(pid, threads[str(span.server)], span)
    for commit in trace.commits:
        yield _instant(pid, threads["commits"], commit)


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> TraceEvent:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _complete(pid: int, tid: int, span: Span) -> TraceEvent:
    last = span.start + max(1, span.tokens) - 1
    positions = f"{span.start}" if last == span.start else f"{span.start}-{last}"
    what = "" if span.outcome is SpanOutcome.ACCEPTED else f", {span.outcome}"
    return {
        "name": f"{span.kind} {positions}{what}",
        "cat": span.kind,
        "ph": "X",
        "ts": _microseconds(span.begin),
        "dur": _microseconds(span.end) - _microseconds(span.begin),
        "pid": pid,
        "tid": tid,
        "args": {
            "outcome": span.outcome,
            "start": span.start,
            "tokens": span.tokens,
            "drafts": span.drafts,
            "accepted": span.accepted,
            "forwards": span.forwards,
        },
    }


def _instant(pid: int, tid: int, commit: Commit) -> TraceEvent:
    return {
        "name": f"commit {commit.tokens}",
        "cat": "commit",
        "ph": "i",
        "s": "t",
        "ts": _microseconds(commit.time),
        "pid": pid,
        "tid": tid,
        "args": {"tokens": commit.tokens, "total": commit.total},
    }


def _request(pid: int, trace: Trace) -> TracedRequest:
    stats = trace.stats
    return {
        "pid": pid,
        "request": trace.request,
        "algorithm": trace.algorithm,
        "prompt_tokens": trace.prompt_tokens,
        "ms": round(trace.seconds * 1e3, 3),
        "settled_us": _microseconds(trace.settled),
        "over": trace.over,
        "omitted": trace.omitted,
        "stats": None
        if stats is None
        else asdict(stats) | {"acceptance_rate": stats.acceptance_rate},
    }


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
