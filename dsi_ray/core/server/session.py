"""ServerSession: what one server does for one request.

A server holds for each request one running task and at most one queued. The same code runs in the
model server and under virtual time; only who computes a forward differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dsi_ray.core.messages import Ended, EndReason, Event, Mode, Output, Task, TokenLogprobs
from dsi_ray.core.path import Path

_NOTHING = Path()


@dataclass(frozen=True, slots=True)
class ForwardStep:
    """One forward: the model's own tokens are wanted at positions ``start .. len(tokens)``.

    A ``start`` of ``len(tokens) + 1`` wants none: it only fills the KV cache. ``proposals`` as in
    :class:`Task`, for these positions.
    """

    tokens: Path
    start: int
    proposals: tuple[bytes, ...] = ()


class ServerSession:
    """The running and the queued task of one request on one server.

    Attributes:
        interrupted: The forward under way is of no more use: stop it.
    """

    def __init__(self) -> None:
        self._running: Task | None = None
        self._queued: Task | None = None
        self._own = _NOTHING
        """The server's own path: the running task's path up to ``start``, then own tokens."""
        self._logprobs: list[TokenLogprobs] = []
        """Of the last tokens of the own path: those that this server computed."""
        self._proposals: list[bytes] = []
        """Likewise."""
        self._alone = False
        """The running task left its draft: it goes on from its own path."""
        self._reported = 0
        """How many tokens of the own path were reported, or known before the task."""
        self._unreported = (0, 0.0)
        """Forwards and seconds spent on the tokens that are not yet reported."""
        self._step: ForwardStep | None = None
        self.interrupted = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run and nothing running."""
        return self._running is None and self._step is None

    def submit(self, task: Task, mode: Mode) -> list[Event]:
        """Takes a task in; returns the ends of the tasks that it displaces."""
        if self._running is None:
            if mode is Mode.QUEUE and not self._own.agrees(task.tokens):
                return [Ended(task.id, EndReason.DROPPED)]
            return self._run(task, self._own if mode is Mode.QUEUE else _NOTHING)
        ended = self._end_queued(EndReason.REPLACED)
        if mode is Mode.QUEUE or self._running.is_prefill:
            # A prefill of the prompt is never wasted: new work waits for it.
            self._queued = task
            return ended
        ended.insert(0, Ended(self._running.id, EndReason.REPLACED))
        return ended + self._run(task, _NOTHING)

    def cancel(self, task: int) -> list[Event]:
        """Ends one task, running or queued; an unknown one is fine."""
        if self._queued is not None and self._queued.id == task:
            return self._end_queued(EndReason.CANCELLED)
        if self._running is None or self._running.id != task:
            return []
        queued, self._queued = self._queued, None
        self._stop_running()
        cancelled: list[Event] = [Ended(task, EndReason.CANCELLED)]
        return cancelled if queued is None else cancelled + self._run(queued, _NOTHING)

    def abort(self) -> list[Event]:
        """Ends every task: nobody needs the request any more."""
        return self._end_all(EndReason.CANCELLED)

    def fail(self, error: str, param: str | None = None) -> list[Event]:
        """The forward raised: ends every task of the request."""
        self.stopped()
        return self._end_all(EndReason.FAILED, error, param)

    def next_step(self) -> ForwardStep | None:
        """The forward to compute now, or None. :meth:`finish` or :meth:`stopped` must follow."""
        task = self._running
        if task is None or self._step is not None:
            return None
        if task.is_prefill:
            self._step = ForwardStep(task.tokens, task.start)
        elif self._alone:
            self._step = ForwardStep(self._own, len(self._own))
        else:
            start = len(self._own)
            self._step = ForwardStep(task.tokens, start, task.proposals[start - task.start :])
        return self._step

    def stopped(self) -> None:
        """The forward was stopped before its end."""
        self._step, self.interrupted = None, False

    def finish(
        self,
        tokens: Sequence[int],
        seconds: float = 0.0,
        logprobs: Sequence[TokenLogprobs] = (),
        proposals: Sequence[bytes] = (),
    ) -> list[Event]:
        """The forward gave ``tokens`` from the step's ``start`` on; returns what to report.

        Fewer tokens than asked for means that the model has no opinion on the rest. ``logprobs``
        and ``proposals`` have one entry for each token, or none.
        """
        step, interrupted = self._step, self.interrupted
        assert step is not None, "finish follows next_step"
        self.stopped()
        if interrupted or self._running is None:
            return []
        forwards, spent = self._unreported
        self._unreported = (forwards + 1, spent + seconds)
        wanted = len(step.tokens) + 1 - step.start
        accepted = _agreement(step, tokens)
        own = tokens[: accepted + 1]
        self._own = step.tokens.upto(step.start).extended(own)
        self._logprobs += logprobs[: len(own)]
        self._proposals += proposals[: len(own)]
        silent = len(own) <= accepted < wanted
        self._alone = wanted > 0 and not silent and (wanted == 1 or len(own) < wanted)
        return self._settle(self._running)

    def _settle(self, task: Task) -> list[Event]:
        """Decides what follows the running task, and reports."""
        dropped: list[Event] = []
        if self._queued is not None and not self._own.agrees(self._queued.tokens):
            dropped = self._end_queued(EndReason.DROPPED)
        if self._queued is not None:
            successor, self._queued = self._queued, None
            return self._report(task, goes_on=False) + self._run(successor, self._own)
        goes_on = self._alone and self._may_go_on(task)
        if goes_on and len(self._own) - self._reported < task.report:
            return dropped
        events = self._report(task, goes_on)
        if not goes_on:
            self._running = None
        return events + dropped

    def _report(self, task: Task, goes_on: bool) -> list[Event]:
        """The own tokens that were not yet reported, and whether the task goes on."""
        start, tokens = self._reported, self._own[self._reported :]
        (forwards, seconds), self._unreported = self._unreported, (0, 0.0)
        self._reported = len(self._own)
        if task.is_prefill:
            return [Ended(task.id, EndReason.DONE)]
        logprobs = tuple(self._logprobs[-len(tokens) :]) if tokens else ()
        proposals = tuple(self._proposals[-len(tokens) :]) if tokens else ()
        return [Output(task.id, start, tokens, goes_on, forwards, seconds, logprobs, proposals)]

    def _may_go_on(self, task: Task) -> bool:
        return len(self._own) < task.limit and self._own[-1] not in task.stops

    def _run(self, task: Task, own: Path) -> list[Event]:
        """Makes ``task`` the running one; ``own`` is what is already known of its path."""
        if self._step is not None:
            self.interrupted = True
        self._running = task
        known = own if len(own) >= task.start else task.tokens.upto(task.start)
        if known is not own:
            self._logprobs, self._proposals = [], []
        self._own = known
        self._alone = len(known) > len(task.tokens)
        # What the server knew before is new to this task's listener from its draft's end on.
        self._reported = min(len(known), len(task.tokens))
        self._unreported = (0, 0.0)
        if len(known) <= len(task.tokens) or self._may_go_on(task):
            return []
        self._running = None
        return self._report(task, goes_on=False)

    def _stop_running(self) -> None:
        self._running = None
        self._own = _NOTHING
        if self._step is not None:
            self.interrupted = True

    def _end_all(
        self, reason: EndReason, error: str | None = None, param: str | None = None
    ) -> list[Event]:
        ended = [task for task in (self._running, self._queued) if task is not None]
        self._queued = None
        self._stop_running()
        return [Ended(task.id, reason, error, param) for task in ended]

    def _end_queued(self, reason: EndReason) -> list[Event]:
        queued, self._queued = self._queued, None
        return [] if queued is None else [Ended(queued.id, reason)]


def _agreement(step: ForwardStep, tokens: Sequence[int]) -> int:
    """How many of the step's drafts equal the model's own tokens, from the first on."""
    draft = step.tokens[step.start :]
    count = 0
    for drafted, own in zip(draft, tokens, strict=False):
        if drafted != own:
            break
        count += 1
    return count
