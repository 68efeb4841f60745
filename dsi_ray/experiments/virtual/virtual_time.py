"""Virtual time: the decoders and server sessions of core/ against modelled latencies.

Nothing waits: a heap of events carries the clock. With free messages the result is the
zero-overhead bound of a given acceptance trace, the yardstick for the real runtime.
"""

import heapq
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dsi_ray.core.decoders import Decoder
from dsi_ray.core.messages import Cancel, Command, Emit, Event, Fail, Mode, ServerId, Start, Task
from dsi_ray.core.path import Path
from dsi_ray.core.server.scheduler import ScheduledRequest, ScheduledResult, Scheduler
from dsi_ray.core.server.session import ForwardStep
from dsi_ray.models.base import Forwarded


@dataclass(frozen=True)
class VirtualModel:
    """A model in virtual time.

    Attributes:
        own: The model's own token after a path.
        latency: Duration of a forward.
    """

    own: Callable[[Path], int]
    latency: Callable[[ForwardStep], float]

    def tokens(self, step: ForwardStep) -> list[int]:
        """The own tokens of one forward."""
        return [self.own(step.tokens.upto(i)) for i in range(step.start, len(step.tokens) + 1)]

    def forward(self, step: ForwardStep) -> Forwarded:
        """What one forward gives, log probabilities included."""
        return Forwarded(self.tokens(step))

    def seconds(self, parts: Sequence[ScheduledRequest]) -> float:
        """Duration of a forward for several requests: here that of the longest part."""
        return max(self.latency(part.step) for part in parts)


@dataclass(slots=True)
class _Server:
    model: VirtualModel
    batch: Scheduler
    held: dict[str, Path] = field(default_factory=dict)
    """What is cached for each request."""
    computing: tuple[list[ScheduledRequest], float] | None = None
    """The forward under way and when it began."""

    def cached(self, request: str, tokens: Path) -> int:
        """How many tokens of a request's path need not be computed."""
        return tokens.common(self.held.get(request, Path()))


@dataclass(frozen=True, slots=True)
class VirtualSpan:
    """One forward in time.

    Attributes:
        server: Where it ran.
        begin: When it began.
        end: When it ended, or was stopped.
        step: What it computed.
        stopped: Whether it was stopped before its end.
    """

    server: ServerId
    begin: float
    end: float
    step: ForwardStep
    stopped: bool


@dataclass(slots=True)
class Run:
    """What happened in one decoding.

    Attributes:
        tokens: Committed tokens.
        seconds: When the last was committed.
        commits: Time of each commit and its tokens.
        messages: Commands sent and reports received.
        started: Ids of all tasks.
        ended: Ids of the tasks whose end was heard.
        spans: All forwards, in the order of their ends.
        error: Why the request failed, if it did.
    """

    tokens: list[int] = field(default_factory=list)
    seconds: float = 0.0
    commits: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)
    messages: int = 0
    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    spans: list[VirtualSpan] = field(default_factory=list)
    error: str | None = None


class VirtualServers(ABC):
    """Servers in virtual time, and the messages to and from them.

    Args:
        models: A model for each server.
        message: Latency of a message, called once a message. Tasks to one server, and reports of
            one server, keep their order, as Ray's calls and a stream's items do; cancels do not.
        chunk: Most tokens of prefill in a forward.
    """

    def __init__(
        self,
        models: dict[ServerId, VirtualModel],
        message: Callable[[], float] = lambda: 0.0,
        chunk: int = sys.maxsize,
    ) -> None:
        self._servers = {
            server: _Server(model, Scheduler(chunk)) for server, model in models.items()
        }
        self._message = message
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._now = 0.0
        self._sent_until: dict[ServerId, float] = {}
        self._reported_until: dict[ServerId, float] = {}
        self._tasks: dict[int, Task] = {}
        self._inbox: list[Event] = []
        self.run = Run()

    @abstractmethod
    def _handle(self, events: list[Event]) -> None:
        """Takes in what happened at one moment."""

    def _drain(self) -> None:
        """Lets time pass until nothing happens any more."""
        while self._heap:
            self._now, _, action = heapq.heappop(self._heap)
            action()
            # All that happens at one instant is one moment.
            if self._inbox and not (self._heap and self._heap[0][0] == self._now):
                events, self._inbox = self._inbox, []
                self._handle(events)

    def _release(self, where: ServerId, request: str) -> None:
        """Lets a server forget a request."""
        self._servers[where].batch.release(request)
        self._servers[where].held.pop(request, None)

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time, next(self._sequence), action))

    def _execute(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Start(task, mode):
                    self.run.started.append(task.id)
                    self._tasks[task.id] = task
                    self._send(task, mode)
                case Cancel(task_id):
                    self._cancel(task_id)
                case Emit(tokens, _):
                    self.run.tokens += tokens
                    self.run.commits.append((self._now, tokens))
                    self.run.seconds = self._now
                case Fail(error):
                    self.run.error = error

    def _send(self, task: Task, mode: Mode) -> None:
        server = self._servers[task.server]
        self.run.messages += 1

        def arrive() -> None:
            if server is self._servers[task.server]:
                self._report(task.server, server.batch.submit(task, mode))
                self._work(task.server)

        self._at(self._in_order(self._sent_until, task.server), arrive)

    def _cancel(self, task_id: int) -> None:
        task = self._tasks[task_id]
        server = self._servers[task.server]
        self.run.messages += 1

        def arrive() -> None:
            if server is self._servers[task.server]:
                self._report(task.server, server.batch.cancel(task.request, task_id))
                self._work(task.server)

        self._at(self._now + self._message(), arrive)

    def _work(self, where: ServerId) -> None:
        server = self._servers[where]
        if server.batch.interrupted:
            self._end_forward(where, stopped=True)
            server.batch.stopped()
        if server.computing is not None:
            return
        parts = server.batch.compose(server.cached)
        if not parts:
            return
        computing = server.computing = parts, self._now
        seconds = server.model.seconds(parts)

        def done() -> None:
            if server is self._servers[where] and server.computing is computing:
                self._end_forward(where, stopped=False)
                self._report(where, self._finish(where, parts, seconds))
                self._work(where)

        self._at(self._now + seconds, done)

    def _end_forward(self, where: ServerId, *, stopped: bool) -> None:
        server = self._servers[where]
        assert server.computing is not None, "a forward ends once"
        parts, begin = server.computing
        server.computing = None
        self.run.spans += [
            VirtualSpan(where, begin, self._now, part.step, stopped) for part in parts
        ]

    def _finish(
        self, where: ServerId, parts: list[ScheduledRequest], seconds: float
    ) -> list[Event]:
        server = self._servers[where]
        server.held |= {part.request: part.tokens for part in parts}
        results = {part.request: self._result(where, part) for part in parts}
        return server.batch.finish(results, seconds)

    def _result(self, where: ServerId, part: ScheduledRequest) -> ScheduledResult:
        if part.is_chunk:
            return ScheduledResult()
        forwarded = self._servers[where].model.forward(part.step)
        return ScheduledResult(forwarded.tokens, forwarded.logprobs, forwarded.proposals)

    def _in_order(self, until: dict[ServerId, float], where: ServerId) -> float:
        """When a message sent now arrives that does not overtake those before it."""
        until[where] = max(self._now + self._message(), until.get(where, 0.0))
        return until[where]

    def _report(self, where: ServerId, events: list[Event]) -> None:
        if not events:
            return
        self.run.messages += 1

        def arrive() -> None:
            self._inbox += events
            self.run.ended += [e.task for e in events if not getattr(e, "goes_on", False)]

        self._at(self._in_order(self._reported_until, where), arrive)


class VirtualDriver(VirtualServers):
    """Runs one decoder to its end.

    Args:
        decoder: Fresh.
        models: A model for each server of the request.
        message: As for :class:`VirtualServers`.
        observe: Called after every moment that the decoder handled.
    """

    def __init__(
        self,
        decoder: Decoder,
        models: dict[ServerId, VirtualModel],
        message: Callable[[], float] = lambda: 0.0,
        observe: Callable[[Decoder], None] = lambda decoder: None,
    ) -> None:
        super().__init__(models, message)
        self._decoder = decoder
        self._observe = observe

    def __call__(self) -> Run:
        """Decodes to the end and drains all servers."""
        self._execute(self._decoder.start())
        self._drain()
        return self.run

    def _handle(self, events: list[Event]) -> None:
        commands = self._decoder.handle(events)
        self._observe(self._decoder)
        self._execute(commands)
