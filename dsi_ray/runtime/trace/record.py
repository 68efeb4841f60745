"""RequestTrace: the record of one request, from what the coordinator says and hears.

Nobody is asked anything: a report carries how long its forwards took, so they began that much
before it was heard; work that is replaced or cancelled ends when that is said. The times are
therefore the coordinator's, a message's latency later than a server's own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dsi_ray.config import Algorithm
from dsi_ray.core.decoders import Request
from dsi_ray.core.messages import (
    Cancel,
    Command,
    Emit,
    Ended,
    EndReason,
    Event,
    Fail,
    Mode,
    Output,
    Role,
    ServerId,
    Start,
    Task,
)
from dsi_ray.runtime.request import RequestStats
from dsi_ray.runtime.trace.spans import Commit, SpanKind, SpanOutcome, Trace
from dsi_ray.runtime.trace.work import TracedWork, agreement

MAX_SPANS = 4096

_OUTCOMES = {
    EndReason.DONE: SpanOutcome.ACCEPTED,
    EndReason.REPLACED: SpanOutcome.CANCELLED,
    EndReason.CANCELLED: SpanOutcome.CANCELLED,
    EndReason.FAILED: SpanOutcome.FAILED,
    EndReason.LOST: SpanOutcome.FAILED,
}
"""Of a task that was running and ended without output; a dropped one never ran."""


@dataclass(slots=True, eq=False)
class _Live:
    """A task whose end was not heard.

    Attributes:
        base: Up to which position its path is known to be committed: that is not kept.
        path: What follows: its drafts, or its own tokens as far as they were heard.
        start: The first position for which it has not reported.
        drafts_end: Up to which position it has drafts to verify.
        stopped: When it was told to stop while it may have been running.
        reported: Whether it has reported.
    """

    server: ServerId
    is_prefill: bool
    sent: float
    base: int
    path: tuple[int, ...]
    start: int
    drafts_end: int
    stopped: float | None = None
    reported: bool = False

    @property
    def kind(self) -> SpanKind:
        """What it is doing now."""
        if self.is_prefill:
            return SpanKind.PREFILL
        if self.server.role is Role.DRAFTER:
            return SpanKind.DRAFT
        return SpanKind.VERIFICATION if self.start < self.drafts_end else SpanKind.DECODE_STEP


@dataclass(slots=True, eq=False)
class _Lane:
    """A server: when its last span ended, and its tasks in the order in which they were sent."""

    free: float = 0.0
    tasks: list[_Live] = field(default_factory=list)


class RequestTrace:
    """The record of one request. All times are seconds from its arrival and never go back.

    Args:
        request: As the decoder has it.
        algorithm: How it is decoded, if it has drafters.
        max_spans: Bound on the spans, and on the commits, that are kept.

    Attributes:
        request: Its id.
        stats: The request's figures, once somebody knows them.
    """

    def __init__(self, request: Request, algorithm: Algorithm, max_spans: int = MAX_SPANS) -> None:
        self.request = request.id
        self.stats: RequestStats | None = None
        self._algorithm = algorithm if request.drafters else Algorithm.NON_SI
        self._prompt_tokens = len(request.prompt)
        self._max_spans = max_spans
        self._lanes = {server: _Lane() for server in (*request.drafters, *request.targets)}
        self._tasks: dict[int, _Live] = {}
        self._text: list[int] = []
        self._works: list[TracedWork] = []
        self._commits: list[Commit] = []
        self._omitted = 0
        self._ended: float | None = None

    def say(self, command: Command, now: float) -> None:
        """Notes a command of the decoder."""
        now = whole(now)
        match command:
            case Start(task, mode):
                self._start(task, mode, now)
            case Cancel(task_id) if task_id in self._tasks:
                self._stop([self._tasks[task_id]], now)
            case Emit(tokens, finish):
                self._commit(tokens, now)
                if finish is not None:
                    self.end(now)
            case Fail():
                self.end(now)

    def hear(self, event: Event, now: float) -> TracedWork | None:
        """Notes an event of a server; returns the work that it tells of, if any."""
        now = whole(now)
        live = self._tasks.get(event.task)
        if live is None:
            return None
        if isinstance(event, Output):
            work = self._report(live, event, now)
            if event.goes_on:
                return work
        else:
            work = self._end_task(live, event, now)
        self._lanes[live.server].tasks.remove(live)
        del self._tasks[event.task]
        return work

    def outcome(self, work: TracedWork) -> SpanOutcome:
        """What became of work so far."""
        return work.span(self._text_of(work), self._ended is not None).outcome

    def end(self, now: float) -> None:
        """Notes that nothing more will be committed."""
        if self._ended is None:
            self._ended = whole(now)

    def snapshot(self, now: float, since: float = 0.0) -> Trace:
        """The trace so far, without what ended before ``since``."""
        now, over = whole(now), self._ended is not None
        unfinished = list(self._unfinished(now))
        works = [work for work in (*self._works, *unfinished) if work.end >= since]
        spans = [work.span(self._text_of(work), over) for work in works]
        seconds = self._length(unfinished) if over else now
        open_ends = [span.begin for span in spans if span.outcome is SpanOutcome.PENDING]
        open_ends += [work.begin for work in unfinished]
        return Trace(
            request=self.request,
            algorithm=self._algorithm,
            prompt_tokens=self._prompt_tokens,
            servers=tuple(self._lanes),
            spans=tuple(spans),
            commits=tuple(commit for commit in self._commits if commit.time >= since),
            seconds=seconds,
            settled=min(open_ends, default=seconds),
            over=over,
            omitted=self._omitted,
            stats=self.stats,
        )

    def _length(self, unfinished: list[TracedWork]) -> float:
        """When the last thing happened."""
        last_commits = [commit.time for commit in self._commits[-1:]]
        ends = [lane.free for lane in self._lanes.values()] + [work.end for work in unfinished]
        return max(ends + last_commits)

    def _start(self, task: Task, mode: Mode, now: float) -> None:
        # A request may get more servers, or others, on its way.
        tasks = self._lanes.setdefault(task.server, _Lane()).tasks
        # As on the server: a prefill is never replaced, new work waits for it.
        waits = bool(tasks) and (mode is Mode.QUEUE or tasks[0].is_prefill)
        if not waits:
            self._stop(tasks, now)
        base = self._prompt_tokens + len(self._text)
        live = self._tasks[task.id] = _Live(
            server=task.server,
            is_prefill=task.is_prefill,
            sent=now,
            base=base,
            path=task.tokens[base:],
            start=task.start,
            drafts_end=len(task.tokens),
        )
        tasks.append(live)

    def _stop(self, tasks: Iterable[_Live], now: float) -> None:
        for live in tasks:
            live.stopped = now if live.stopped is None else live.stopped

    def _commit(self, tokens: tuple[int, ...], now: float) -> None:
        self._text += tokens
        if len(self._commits) < self._max_spans:
            self._commits.append(Commit(now, len(tokens), len(self._text)))
        else:
            self._omitted += 1

    def _report(self, live: _Live, output: Output, now: float) -> TracedWork | None:
        # What the server knew before is not reported again: this may be further than was asked for.
        live.start = output.start
        kind, drafts, agreed = live.kind, len(output.tokens), 0
        if live.server.role is Role.TARGET:
            first = output.start - live.base
            wanted = live.path[first : live.drafts_end - live.base]
            drafts, agreed = len(wanted), agreement(wanted, output.tokens)
            if agreed < drafts:
                live.drafts_end = 0
        self._forget_committed(live, output.start)
        live.path = live.path[: output.start - live.base] + output.tokens
        live.start += len(output.tokens)
        if not output.forwards:
            return None
        begin = whole(now - output.seconds)
        work = TracedWork(
            server=live.server,
            kind=kind,
            begin=begin,
            end=now,
            start=output.start,
            base=live.base,
            path=live.path,
            tokens=len(output.tokens),
            drafts=drafts,
            agreed=agreed,
            forwards=output.forwards,
            waited=None if live.reported else max(0.0, begin - live.sent),
            late=live.stopped is not None,
        )
        live.reported = True
        return self._add(work)

    def _forget_committed(self, live: _Live, before: int) -> None:
        """Moves the base on to where the path is no longer what is committed.

        A server that goes on alone would else leave its whole text with each of its tokens.
        """
        path, first = live.path[: before - live.base], live.base - self._prompt_tokens
        same = agreement(path, self._text[first : first + len(path)])
        live.base, live.path = live.base + same, live.path[same:]

    def _end_task(self, live: _Live, event: Ended, now: float) -> TracedWork | None:
        """A running task leaves a span; one that waited for another leaves none."""
        outcome = _OUTCOMES.get(event.reason)
        lane = self._lanes[live.server]
        end = now if live.stopped is None else live.stopped
        if outcome is not None and lane.tasks[0] is live and max(live.sent, lane.free) < end:
            return self._add(
                TracedWork(live.server, live.kind, live.sent, end, live.start, outcome)
            )
        return None

    def _add(self, work: TracedWork) -> TracedWork:
        """Keeps a span, cut to what its lane has left."""
        lane = self._lanes[work.server]
        work.begin = max(work.begin, lane.free)
        lane.free = work.end
        if len(self._works) < self._max_spans:
            self._works.append(work)
        else:
            self._omitted += 1
        return work

    def _unfinished(self, now: float) -> Iterator[TracedWork]:
        """What was not reported: on each lane the running task, and before it stopped ones."""
        for server, lane in self._lanes.items():
            free = lane.free
            for live in lane.tasks:
                stopped = self._ended if live.stopped is None else live.stopped
                begin, end = max(free, live.sent), now if stopped is None else stopped
                if begin < end:
                    outcome = SpanOutcome.RUNNING if stopped is None else SpanOutcome.CANCELLED
                    yield TracedWork(server, live.kind, begin, end, live.start, outcome)
                    free = end
                if live.stopped is None:
                    break

    def _text_of(self, work: TracedWork) -> list[int]:
        """The text from the work's base on, as far as its path goes."""
        first = work.base - self._prompt_tokens
        return self._text[first : first + len(work.path)] if work.path else []


def whole(seconds: float) -> float:
    """Whole microseconds, so that times are equal to themselves after a journey as JSON."""
    return round(seconds, 6)
