"""Crowd: many requests on one group in virtual time, while servers die, hang and come back."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Request
from dsi_ray.core.group.request_state import Job
from dsi_ray.core.messages import Event, Role, ServerId
from dsi_ray.core.planning.expected import ForwardCost
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.core.server.scheduler import ScheduledRequest, Scheduler
from dsi_ray.experiments.virtual.virtual_group import VirtualGroup
from dsi_ray.experiments.virtual.virtual_time import VirtualModel
from tests.core.hostile import MOST_MOMENTS
from tests.core.language import Guesser, GuesserModel, Language, plain_text
from tests.core.scenario import ALGORITHMS, Durations, latency
from tests.core.strategies import durations, guessers, languages


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, when it comes, and when its client goes away, if it does."""

    time: int
    prompt: tuple[int, ...]
    criteria: StopCriteria
    algorithm: str
    sp_degree: int
    leaves: int | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """A server that dies or hangs, and comes back."""

    server: int
    begin: int
    length: int
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class Poison:
    """What a request does to the servers of a role that compute ``depth`` tokens of it.

    They die, and are back after ``length``; or hang until they are killed.
    """

    request: int
    depth: int
    role: Role
    length: int
    hangs: bool


@dataclass(frozen=True, slots=True)
class Crowd:
    """All that happens to one group.

    Attributes:
        outages: By index: the target servers come first, then the drafter.
        poisons: Of some requests, by index.
    """

    target: Language
    drafter: Guesser
    servers: int
    arrivals: tuple[Arrival, ...]
    outages: tuple[Outage, ...]
    target_latencies: Durations
    drafter_latencies: Durations
    messages: Durations
    chunk: int
    poisons: tuple[Poison, ...] = ()

    def expected(self, request: str) -> list[int]:
        """What the target alone decodes."""
        arrival = self.arrivals[int(request)]
        return plain_text(self.target, arrival.prompt, arrival.criteria)[0]

    def driver(self) -> "CrowdDriver":
        """A fresh group and its servers, ready to run."""
        targets = [ServerId(Role.TARGET, i) for i in range(self.servers)]
        drafter = ServerId(Role.DRAFTER, 0)
        models: dict[ServerId, VirtualModel] = {
            server: VirtualModel(self.target, latency(self.target_latencies)) for server in targets
        }
        models[drafter] = GuesserModel(self.drafter, latency(self.drafter_latencies))
        messages = itertools.cycle(self.messages)
        pace = PerformanceModel(10, 2, 1, cost=ForwardCost(((1, 10), (4, 11), (16, 30))))
        poisons = {str(p.request % len(self.arrivals)): p for p in self.poisons}
        driver = CrowdDriver(models, pace, lambda: next(messages), self.chunk, poisons)
        for index, arrival in enumerate(self.arrivals):
            driver.arrive(arrival.time, job(str(index), arrival))
            if arrival.leaves is not None:
                driver.leave(arrival.time + arrival.leaves, str(index))
        for outage in self.outages:
            server = [*targets, drafter][outage.server % (len(targets) + 1)]
            happens = driver.hang if outage.hangs else driver.out
            happens(outage.begin, outage.begin + outage.length, server)
        return driver


class CrowdDriver(VirtualGroup):
    """A group whose servers die or hang and whose clients go away.

    Attributes:
        left: The requests whose clients went away.
        suspected: How often a server was suspected.
        poisoned: The servers that a request has killed or hung, each as often as that.
    """

    def __init__(
        self,
        models: dict[ServerId, VirtualModel],
        pace: PerformanceModel,
        message: Callable[[], float],
        chunk: int,
        poisons: dict[str, Poison],
    ) -> None:
        super().__init__(models, pace, message, chunk)
        self._chunk = chunk
        self._poisons = poisons
        self.poisoned: list[ServerId] = []
        self.left: set[str] = set()
        self.suspected = 0
        self._dead: set[ServerId] = set()
        self._hanging: set[ServerId] = set()
        self._doubted: set[ServerId] = set()
        self._moments = 0
        self._at(CHECK, self._check)

    def _handle(self, events: list[Event]) -> None:
        self._moments += 1
        assert self._moments < MOST_MOMENTS, "the run does not end"
        super()._handle(events)

    @property
    def busy(self) -> int:
        """How many requests have work on servers."""
        return sum(server.batch.busy for server in self._servers.values())

    def leave(self, time: float, request: str) -> None:
        """Lets a client go away."""

        def leave() -> None:
            self.left.add(request)
            self._obey(self.group.leave(request))

        self._at(time, leave)

    def hang(self, begin: float, end: float, server: ServerId) -> None:
        """Lets a server take tasks and cancellations, but end no forward, for a while."""

        def freeze() -> None:
            if server in self._dead | self._hanging:
                return
            self._hanging.add(server)
            state = self._servers[server]
            if state.computing is not None:
                # As a new object: what was to happen at its end does not.
                parts, began = state.computing
                state.computing = parts, began
            self._at(end, lambda: thaw(state))

        def thaw(state: object) -> None:
            if state is not self._servers[server]:
                return
            self._hanging.discard(server)
            computing = self._servers[server].computing
            if computing is not None:
                self._end_forward(server, stopped=False)
                self._report(server, self._finish(server, computing[0], end - begin))
            self._work(server)

        self._at(begin, freeze)

    def _work(self, where: ServerId) -> None:
        if where not in self._hanging:
            super()._work(where)

    def _finish(
        self, where: ServerId, parts: list[ScheduledRequest], seconds: float
    ) -> list[Event]:
        for part in parts:
            poison = self._poisons.get(part.request)
            if poison and poison.role is where.role and part.end >= poison.depth:
                self.poisoned.append(where)
                if poison.hangs:
                    self._hanging.add(where)
                else:
                    self._die(where, self._now + poison.length)
                return []
        return super()._finish(where, parts, seconds)

    def _check(self) -> None:
        for server in self.group.overdue(self._now):
            self._obey(self.group.suspect(server))
            if server not in self._doubted:
                self.suspected += 1
                self._doubted.add(server)
                self._at(self._now + CHECK, lambda server=server: self._doubt(server, 1))
        if self._heap or self.group.tasks:
            self._at(self._now + CHECK, self._check)

    def _doubt(self, server: ServerId, checks: int) -> None:
        """Waits for a suspected server; in the end another takes its place."""
        if server in self._dead:
            self._doubted.discard(server)
        elif server not in self._hanging:
            self._doubted.discard(server)
            self._obey(self.group.restore(server))
        elif checks == _MOST_CHECKS:
            self._doubted.discard(server)
            self.out(self._now, self._now + CHECK, server)
        else:
            self._at(self._now + CHECK, lambda: self._doubt(server, checks + 1))

    def out(self, begin: float, end: float, server: ServerId) -> None:
        """Lets a server be dead for a while."""
        self._at(begin, lambda: self._die(server, end))

    def _die(self, server: ServerId, end: float) -> None:
        if server in self._dead:
            return

        def come_back() -> None:
            self._dead.discard(server)
            self._obey(self.group.restore(server))

        self._dead.add(server)
        self._hanging.discard(server)
        # All that it had, and was sent, is lost.
        self._servers[server] = replace(
            self._servers[server], batch=Scheduler(self._chunk), held={}, computing=None
        )
        self._obey(self.group.lose(server))
        self._at(end, come_back)


def job(name: str, arrival: Arrival) -> Job:
    """The job of an arrival."""

    def decoder(request: Request, pace: PerformanceModel) -> Decoder:
        match arrival.algorithm:
            case "dsi":
                return DSI(request, pace.plan(max(1, len(request.targets))))
            case "si":
                return SI(request, 3)
            case _:
                return NonSI(request)

    is_dsi = arrival.algorithm == "dsi"
    return Job(
        name,
        arrival.prompt,
        arrival.criteria,
        arrival.sp_degree if is_dsi else 1,
        decoder,
        drafted=arrival.algorithm != "non-si",
    )


CHECK = 7
"""Between two looks for servers that hang."""

_MOST_CHECKS = 20
"""A server that is suspected for so many of them is killed."""

TIMES = st.integers(0, 200)


@st.composite
def arrivals(draw: st.DrawFn, target: Language) -> Arrival:
    """Any request at any time; some clients go away."""
    tokens = st.integers(0, target.vocabulary - 1)
    return Arrival(
        draw(TIMES),
        tuple(draw(st.lists(tokens, min_size=1, max_size=12))),
        StopCriteria(draw(st.integers(1, 25)), draw(st.frozensets(tokens, max_size=1))),
        draw(st.sampled_from(("dsi", *ALGORITHMS))),
        draw(st.integers(1, 4)),
        draw(st.none() | TIMES),
    )


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    """Any group, with more or fewer servers than requests."""
    target = draw(languages())
    outages = st.builds(Outage, st.integers(0, 9), TIMES, st.integers(0, 300), st.booleans())
    return Crowd(
        target=target,
        drafter=draw(guessers(target)),
        servers=draw(st.integers(1, 4)),
        arrivals=tuple(draw(st.lists(arrivals(target), min_size=1, max_size=7))),
        outages=tuple(draw(st.lists(outages, max_size=4))),
        target_latencies=draw(durations(1)),
        drafter_latencies=draw(durations(1)),
        messages=draw(durations(0, 10)),
        chunk=draw(st.sampled_from([1, 4, 1000])),
    )
