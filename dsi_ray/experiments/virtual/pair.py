"""Pair: a simulated target and drafter, decoded in virtual time.

Texts, acceptance traces and latencies are those of :mod:`dsi_ray.models.simulated`: a prompt whose
first token is ``trace`` has one acceptance trace here and on real Ray actors.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from dsi_ray.config import Simulation
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Plan, Request
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.core.server.session import ForwardStep
from dsi_ray.experiments.virtual.virtual_time import Run, VirtualDriver, VirtualModel
from dsi_ray.models import simulated


def prompt(trace: int) -> tuple[int, ...]:
    """The first token chooses the trace; a second makes the other target servers prefill."""
    return trace, 0


class SimulatedServer(VirtualModel):
    """What :class:`~dsi_ray.models.simulated.SimulatedModel` is to a model server."""

    def __init__(
        self,
        simulation: Simulation,
        server: ServerId,
        seed: int,
        observe: Callable[[float], None],
    ) -> None:
        """``seed`` draws the jitter; ``observe`` hears how long each forward took."""
        token = simulated.target_token if server.role is Role.TARGET else simulated.drafter_token
        super().__init__(lambda path: token(simulation, len(path), trace=path[0]), self._seconds)
        self._simulation = simulation
        self._jitter = random.Random(f"{simulation.seed} {server} {seed}")
        self._observe = observe
        self._first = True
        self._last = 0.0

    def tokens(self, step: ForwardStep) -> list[int]:
        """The own tokens of a forward that was not stopped."""
        if not self._first:
            self._observe(self._last)
        self._first = False
        return super().tokens(step)

    def _seconds(self, step: ForwardStep) -> float:
        wanted = len(step.tokens) + 1 - step.start
        computed = len(step.tokens) if self._first else max(wanted, 1)
        share = simulated.Share(computed, wanted, self._first)
        seconds = simulated.forward_seconds(self._simulation, [share])
        if self._simulation.jitter:
            seconds *= max(self._jitter.gauss(1, self._simulation.jitter), 0)
        self._last = seconds
        return seconds


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and a drafter that decode ``tokens`` tokens.

    Attributes:
        target: Its waits.
        drafter: Its waits and its acceptance rate; the same seed as the target.
        tokens: Length of every text.
        message: Seconds that a message takes.
    """

    target: Simulation
    drafter: Simulation
    tokens: int = 50
    message: float = 0.0

    @classmethod
    def of(
        cls, target_ms: float, drafter_ms: float, acceptance: float, tokens: int = 50, seed: int = 0
    ) -> "Pair":
        """A pair with constant latencies."""
        return cls(
            Simulation(tpot_ms=target_ms, seed=seed),
            Simulation(tpot_ms=drafter_ms, acceptance_rate=acceptance, seed=seed),
            tokens,
        )

    @property
    def pace(self) -> PerformanceModel:
        """Its latencies and its acceptance rate, as a planner that knows them sees them."""
        return PerformanceModel(
            self.target.tpot_ms / 1000,
            self.drafter.tpot_ms / 1000,
            self.message,
            self.drafter.acceptance_rate,
            self.drafter.acceptance_rate,
        )

    def accepted_share(self, traces: int) -> float:
        """How many of the drafts of the first ``traces`` texts are right."""
        begin = len(prompt(0))
        positions = range(begin, begin + self.tokens)
        right = sum(
            simulated.is_accepted(self.drafter, position, trace)
            for trace in range(traces)
            for position in positions
        )
        return right / (traces * self.tokens)

    def non_si(self, trace: int = 0) -> Run:
        """Plain decoding."""
        return self._run(NonSI, 1, trace)

    def si(self, lookahead: int, trace: int = 0) -> Run:
        """SI with one target server."""
        return self._run(partial(SI, lookahead=lookahead), 1, trace)

    def dsi(self, sp_degree: int, plan: Plan, trace: int = 0) -> Run:
        """DSI with a fixed plan."""
        return self._run(partial(DSI, plan=plan), sp_degree, trace)

    def adaptive(self, sp_degree: int, trace: int, pace: PerformanceModel) -> Run:
        """DSI with a plan that follows what happens, as the coordinator's does."""
        decoder = partial(DSI, plan=pace.plan(sp_degree))
        return self._run(decoder, sp_degree, trace, pace)

    def _run(
        self,
        decoder: Callable[[Request], Decoder],
        sp_degree: int,
        trace: int,
        pace: PerformanceModel | None = None,
    ) -> Run:
        targets = [ServerId(Role.TARGET, i) for i in range(sp_degree)]
        drafter = ServerId(Role.DRAFTER, 0)
        request = Request("", prompt(trace), StopCriteria(self.tokens), targets, [drafter])
        follower = pace or replace(self.pace)
        models: dict[ServerId, VirtualModel] = {
            server: SimulatedServer(self.target, server, trace, follower.observe_target)
            for server in targets
        }
        models[drafter] = SimulatedServer(self.drafter, drafter, trace, follower.observe_drafter)

        def adapt(decoder: Decoder) -> None:
            if pace is not None and isinstance(decoder, DSI):
                pace.adapt(decoder)

        made = decoder(request)
        run = VirtualDriver(made, models, lambda: self.message, adapt)()
        if pace is not None:
            pace.observe_request(made.tree.accepted, made.tree.rejected)
        return run
