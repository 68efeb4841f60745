"""ServerBatch: what one server does for all its requests, forward by forward.

Continuous batching: each forward takes the runnable step of every request, so that a server with
many requests computes them together. The same code runs in the model server and in virtual time.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dsi_ray.core.messages import Event, Mode, Task, TokenLogprobs
from dsi_ray.core.path import Path
from dsi_ray.core.server.session import ForwardStep, ServerSession

_LEAST_SHARE = 4
"""Prefills get at least this part of a forward's tokens, however much else there is."""


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """One request's part of a forward.

    Attributes:
        request: Whose it is.
        step: What is wanted.
        known: How many of the step's tokens need not be computed.
        end: How many of the step's tokens the forward takes. Fewer than all are a chunk of a
            prefill, and give no token.
    """

    request: str
    step: ForwardStep
    known: int
    end: int

    @property
    def computed(self) -> int:
        """How many tokens the forward computes for it."""
        return self.end - self.known

    @property
    def is_chunk(self) -> bool:
        """Whether the step needs another forward after this."""
        return self.end < len(self.step.tokens)

    @property
    def tokens(self) -> Path:
        """What the cache holds after the forward."""
        return self.step.tokens.upto(self.end)

    @property
    def start(self) -> int:
        """The first position of which the token is wanted."""
        return self.end + 1 if self.is_chunk else self.step.start


@dataclass(frozen=True, slots=True)
class ScheduledResult:
    """What a forward gave for one part; ``error`` and ``postponed`` stand for all else.

    ``param`` is the field of the request that is to blame for the error, if one is.

    A postponed part was not computed, since the KV cache had no room beside the others.
    """

    tokens: Sequence[int] = ()
    logprobs: Sequence[TokenLogprobs] = ()
    proposals: Sequence[bytes] = ()
    error: str | None = None
    param: str | None = None
    postponed: bool = False


@dataclass(slots=True)
class _Entry:
    arrival: int
    session: ServerSession = field(default_factory=ServerSession)
    open: ForwardStep | None = None
    """A step that was begun; a long one takes several forwards."""
    spent: float = 0.0
    """Seconds of those that it took."""

    def stopped(self) -> None:
        """Its forward was stopped."""
        self.open, self.spent = None, 0.0
        self.session.stopped()


class Scheduler:
    """The sessions of all requests on one server.

    Args:
        chunk: Most tokens that prefills together add to a forward. A longer prefill is cut, so
            that the other requests of the server wait for a chunk at most.
    """

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self._entries: dict[str, _Entry] = {}
        self._arrivals = itertools.count()
        self._parts: list[ScheduledRequest] = []

    @property
    def interrupted(self) -> bool:
        """Whether the forward under way is of no more use to anybody: stop it."""
        return bool(self._parts) and all(
            self._entries[part.request].session.interrupted for part in self._parts
        )

    @property
    def busy(self) -> int:
        """How many requests have work here."""
        return sum(not entry.session.idle for entry in self._entries.values())

    def is_idle(self, request: str) -> bool:
        """Whether a request has no work here."""
        entry = self._entries.get(request)
        return entry is None or entry.session.idle

    def submit(self, task: Task, mode: Mode) -> list[Event]:
        """Takes a task in; returns the ends of the tasks that it displaces."""
        if task.request not in self._entries:
            self._entries[task.request] = _Entry(next(self._arrivals))
        return self._entries[task.request].session.submit(task, mode)

    def cancel(self, request: str, task: int) -> list[Event]:
        """Ends one task, running or queued; an unknown one is fine."""
        entry = self._entries.get(request)
        return [] if entry is None else entry.session.cancel(task)

    @property
    def requests(self) -> list[str]:
        """Those that have not been released."""
        return list(self._entries)

    def abort(self, request: str) -> list[Event]:
        """Ends all tasks of a request; an unknown one is fine."""
        entry = self._entries.get(request)
        return [] if entry is None else entry.session.abort()

    def release(self, request: str) -> None:
        """Forgets a request, whose tasks have ended; an unknown one is fine.

        If it is part of the forward under way nobody waits for that part.
        """
        self._entries.pop(request, None)
        self._parts = [part for part in self._parts if part.request != request]

    def compose(self, cached: Callable[[str, Path], int]) -> list[ScheduledRequest]:
        """The next forward, empty if there is nothing to do; :meth:`finish` or :meth:`stopped`
        must follow one that is not.

        Who came first stands first: where memory is short, those who came later wait for it.

        Args:
            cached: How many tokens of a request's path need not be computed.
        """
        whole: list[ScheduledRequest] = []
        prefills: list[ScheduledRequest] = []
        for request, entry in self._entries.items():
            if entry.open is not None and entry.session.interrupted:
                entry.stopped()
            step = entry.open = entry.open or entry.session.next_step()
            if step is None:
                continue
            # What is wanted of it has to be computed even if it is cached.
            known = min(cached(request, step.tokens), step.start - 1)
            part = ScheduledRequest(request, step, known, len(step.tokens))
            (whole if known == step.start - 1 else prefills).append(part)
        computed = sum(part.computed for part in whole)
        room = max(self._chunk - computed, self._chunk // _LEAST_SHARE, 1)
        self._parts = whole + _cut(prefills, room)
        # Who got less than all, or nothing, is first next time.
        for request in [part.request for part in self._parts if not part.is_chunk]:
            self._entries[request] = self._entries.pop(request)
        self._parts.sort(key=lambda part: self._entries[part.request].arrival)
        return list(self._parts)

    def finish(self, results: dict[str, ScheduledResult], seconds: float = 0.0) -> list[Event]:
        """The forward gave ``results``, by request; returns what to report."""
        parts, self._parts = self._parts, []
        events: list[Event] = []
        for part in parts:
            entry, result = self._entries[part.request], results[part.request]
            if result.postponed:
                entry.stopped()
                continue
            entry.spent += seconds
            if result.error is not None:
                events += entry.session.fail(result.error, result.param)
            elif part.is_chunk:
                continue
            else:
                events += entry.session.finish(
                    result.tokens, entry.spent, result.logprobs, result.proposals
                )
            entry.open, entry.spent = None, 0.0
        return events

    def stopped(self) -> None:
        """The forward was stopped before its end."""
        for part in self._parts:
            self._entries[part.request].stopped()
        self._parts = []


def _cut(prefills: list[ScheduledRequest], room: int) -> list[ScheduledRequest]:
    """As many prefills as fit into ``room`` tokens, the last of them cut."""
    parts = []
    for part in prefills:
        if room <= 0:
            break
        parts.append(replace(part, end=min(part.end, part.known + room)))
        room -= parts[-1].computed
    return parts
