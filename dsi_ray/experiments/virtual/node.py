"""A node of several devices under load, in virtual time: what requests get of it.

The paper studies one request at a time and leaves open what happens to many (Timor et al., ICLR
2025, section 5). Here the same devices serve the same requests by DSI, and by SI and plain decoding
with continuous batching, as today's servers do.
"""

import itertools
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dsi_ray.config import Simulation
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, Decoder, Request
from dsi_ray.core.group.request_state import Job, RoutedCommand
from dsi_ray.core.messages import Release, Role, ServerId
from dsi_ray.core.planning.expected import ForwardCost
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.core.server.scheduler import ScheduledRequest
from dsi_ray.experiments.virtual.virtual_group import VirtualGroup
from dsi_ray.experiments.virtual.virtual_time import VirtualModel
from dsi_ray.models import simulated


@dataclass(frozen=True, slots=True)
class Visit:
    """A request on its way to a node.

    Attributes:
        trace: Chooses its text and which drafts are right.
        time: When it comes, in seconds.
        prompt: Number of tokens of its prompt.
        tokens: Number of tokens that it asks for.
    """

    trace: int
    time: float
    prompt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """Devices and the two models that they run.

    Attributes:
        target: How long its forwards take.
        drafter: The same, and how often it is right.
        devices: Their number.
        slots: Most requests on a device at once, as far as its memory goes.
        chunk: Most tokens of prefill in a forward.
        message: Seconds that a message takes; only DSI sends any.
    """

    target: Simulation
    drafter: Simulation
    devices: int = 8
    slots: int = 16
    chunk: int = 256
    message: float = 0.0


def poisson(rate: float, count: int, seed: int = 0) -> list[Visit]:
    """``count`` requests, ``rate`` a second, of mixed lengths."""
    dice = random.Random(f"{seed} {count}")
    times = itertools.accumulate(dice.expovariate(rate) for _ in range(count))
    return [
        Visit(trace, time, dice.randint(16, 112), dice.randint(16, 112))
        for trace, time in enumerate(times)
    ]


class NodeServer(VirtualModel):
    """A server whose forwards take longer the more tokens they compute."""

    def __init__(self, simulation: Simulation, role: Role) -> None:
        own = simulated.target_token if role is Role.TARGET else simulated.drafter_token
        super().__init__(lambda path: own(simulation, len(path), path[0]), lambda step: 0.0)
        self._simulation = simulation

    def seconds(self, parts: Sequence[ScheduledRequest]) -> float:
        """Duration of a forward for all of ``parts``."""
        return forward_seconds(self._simulation, sum(part.computed for part in parts))


def forward_seconds(simulation: Simulation, tokens: int) -> float:
    """Seconds of a forward of ``tokens`` tokens, of all requests together."""
    return simulated.forward_seconds(simulation, [simulated.Share(tokens, tokens, first=False)])


def cost_of(simulation: Simulation) -> ForwardCost:
    """What a planner that has measured the model knows."""
    counts = (1, simulation.knee_tokens, simulation.knee_tokens + 1_000)
    return ForwardCost(tuple((n, forward_seconds(simulation, n)) for n in sorted(set(counts))))


class NodeGroup(VirtualGroup):
    """A DSI group on a node: one device drafts, the others verify; requests wait for a slot."""

    def __init__(self, node: SimulatedNode) -> None:
        servers = node.devices - 1
        models: dict[ServerId, VirtualModel] = {
            ServerId(Role.TARGET, i): NodeServer(node.target, Role.TARGET) for i in range(servers)
        }
        models[ServerId(Role.DRAFTER, 0)] = NodeServer(node.drafter, Role.DRAFTER)
        pace = PerformanceModel(
            node.target.tpot_ms / 1000,
            node.drafter.tpot_ms / 1000,
            node.message,
            cost=cost_of(node.target),
        )
        super().__init__(models, pace, lambda: node.message, node.chunk)
        self._free = node.slots * servers
        self._waiting: deque[Job] = deque()

    def visit(self, visit: Visit) -> None:
        """Lets a request come."""

        def come() -> None:
            self._waiting.append(job_of(visit))
            self._let_in()

        self._at(visit.time, come)

    def _let_in(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._admit(self._waiting.popleft())

    def _obey(self, said: Sequence[RoutedCommand]) -> None:
        super()._obey(said)
        over = sum(isinstance(command, Release) for _, command in said)
        if over:
            self._free += over
            self._let_in()


def serve_dsi(node: SimulatedNode, visits: Sequence[Visit]) -> dict[int, float]:
    """When each request of ``visits``, by its trace, has all its tokens."""
    group = NodeGroup(node)
    for visit in visits:
        group.visit(visit)
    return {int(request): served.last for request, served in group().items()}


def job_of(visit: Visit) -> Job:
    """A visit as the group takes it."""

    def decoder(request: Request, pace: PerformanceModel) -> Decoder:
        return DSI(request, pace.plan(max(1, len(request.targets))))

    prompt = (visit.trace, *range(visit.prompt - 1))
    return Job(str(visit.trace), prompt, StopCriteria(visit.tokens), 64, decoder)
