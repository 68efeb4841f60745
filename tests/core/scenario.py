"""Scenario: one request, its models and its plan; what the properties draw and run."""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Plan, Request
from dsi_ray.core.messages import FinishReason, Role, ServerId
from dsi_ray.core.server.session import ForwardStep
from dsi_ray.experiments.virtual.virtual_time import VirtualModel
from tests.core.hostile import HostileDriver
from tests.core.language import Guesser, GuesserModel, Language, plain_text

Durations = tuple[int, ...]
"""Whole numbers, so that virtual time is exact; used in turn."""

ALGORITHMS = ("dsi", "si", "non-si")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One decoding.

    Attributes:
        target_latencies: Durations of forwards, in turn for each server.
        drafter_latencies: The same for each drafter.
        messages: Latencies of messages, in turn.
        contexts: Most tokens that each drafter takes; what comes without one takes any number.
    """

    target: Language
    drafters: tuple[Guesser, ...]
    prompt: tuple[int, ...]
    criteria: StopCriteria
    sp_degree: int
    plan: Plan
    target_latencies: Durations = (10,)
    drafter_latencies: tuple[Durations, ...] = ((2,),) * 4
    messages: Durations = (0,)
    contexts: tuple[int, ...] = ()

    @property
    def targets(self) -> list[ServerId]:
        """The target servers."""
        return [ServerId(Role.TARGET, i) for i in range(self.sp_degree)]

    @property
    def drafter_servers(self) -> list[ServerId]:
        """The drafters, by rank."""
        return [ServerId(Role.DRAFTER, i) for i in range(len(self.drafters))]

    @property
    def expected(self) -> tuple[list[int], FinishReason]:
        """What the target alone decodes."""
        return plain_text(self.target, self.prompt, self.criteria)

    @property
    def request(self) -> Request:
        """The request, fresh."""
        return Request(
            "request",
            self.prompt,
            self.criteria,
            tuple(self.targets),
            tuple(self.drafter_servers),
            contexts=dict(zip(self.drafter_servers, self.contexts, strict=False)),
        )

    def decoder(self, algorithm: str) -> Decoder:
        """A fresh decoder."""
        match algorithm:
            case "dsi":
                return DSI(self.request, self.plan)
            case "si":
                return SI(self.request, self.plan.lookahead)
            case _:
                return NonSI(self.request)

    def driver(
        self, algorithm: str, kind: Callable[..., HostileDriver] = HostileDriver, **options: Any
    ) -> HostileDriver:
        """A driver of a fresh decoder; ``options`` as for ``kind``."""
        messages = itertools.cycle(self.messages)
        return kind(self.decoder(algorithm), self.models(), lambda: next(messages), **options)

    def models(self) -> dict[ServerId, VirtualModel]:
        """A fresh model for each server."""
        models: dict[ServerId, VirtualModel] = {
            server: VirtualModel(self.target, latency(self.target_latencies))
            for server in self.targets
        }
        contexts = itertools.chain(self.contexts, itertools.repeat(sys.maxsize))
        for server, guesser, durations, context in zip(
            self.drafter_servers, self.drafters, self.drafter_latencies, contexts, strict=False
        ):
            models[server] = GuesserModel(guesser, latency(durations), context)
        return models

    def seconds(self, algorithm: str, **changes: Any) -> float:
        """When the last token is committed."""
        return replace(self, **changes).driver(algorithm)().seconds


def latency(durations: Durations) -> Callable[[ForwardStep], float]:
    """Durations of forwards, in turn."""
    turns = itertools.cycle(durations)
    # A prefill of the prompt has its own price; these properties leave it out.
    return lambda step: next(turns) if step.start <= len(step.tokens) else 0
