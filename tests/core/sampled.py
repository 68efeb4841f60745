"""Scenarios whose tokens are sampled from logits, by the same code as on real servers."""

import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from dsi_ray.core.decoders import Request
from dsi_ray.core.messages import FinishReason, Role, ServerId, TokenLogprobs
from dsi_ray.core.server.session import ForwardStep
from dsi_ray.experiments.virtual.virtual_time import VirtualModel
from dsi_ray.models.base import Extension, Forwarded, Sampling, extend_one
from dsi_ray.models.sampling import choose
from dsi_ray.params import SamplingParams
from tests.core.language import Prefix
from tests.core.scenario import Scenario, latency


class Extends(Protocol):
    """The part of a language model that computes."""

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """As in :class:`dsi_ray.models.base.LanguageModel`."""


@dataclass(frozen=True, slots=True)
class Table:
    """A model without weights: random logits that depend on every token of the prefix.

    Attributes:
        seed: Of the logits.
        vocabulary: Number of ids.
        blur: Share of another model's logits in its own: 0 is the target itself, 1 a stranger.
    """

    seed: int
    vocabulary: int
    blur: float = 0.0

    def logits(self, prefix: Prefix) -> torch.Tensor:
        """Of the token after ``prefix``."""
        return (1 - self.blur) * self._random(prefix, 0) + self.blur * self._random(prefix, 1)

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """One row for each position."""
        return [self._forward(part) for part in batch]

    def _forward(self, part: Extension) -> Forwarded:
        rows = [self.logits(part.tokens[:i]) for i in range(part.start, len(part.tokens) + 1)]
        if not rows:
            return Forwarded([])
        return choose(torch.stack(rows), part.tokens, part.sampling, proposals=part.proposals)

    def _random(self, prefix: Prefix, salt: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(zlib.crc32(bytes(prefix), self.seed + salt))
        return 2 * torch.randn(self.vocabulary, generator=generator, dtype=torch.float64)


class ServedModel(VirtualModel):
    """A language model on a virtual server."""

    def __init__(
        self, model: Extends, sampling: Sampling, latency: Callable[[ForwardStep], float]
    ) -> None:
        super().__init__(lambda path: 0, latency)
        self._model = model
        self._sampling = sampling

    def forward(self, step: ForwardStep) -> Forwarded:
        """What the model gives."""
        part = Extension("request", step.tokens, step.start, self._sampling, step.proposals)
        return extend_one(self._model, part)


@dataclass(frozen=True, slots=True)
class SampledScenario(Scenario):
    """A request with sampling parameters on models with logits.

    Attributes:
        sampling: Of the request.
        new_target: Makes a target server's model.
        new_drafters: Make the models of the drafters.
    """

    sampling: Sampling = field(kw_only=True)
    new_target: Callable[[], Extends] = field(kw_only=True)
    new_drafters: tuple[Callable[[], Extends], ...] = field(kw_only=True)

    @property
    def drafter_servers(self) -> list[ServerId]:
        """The drafters, by rank."""
        return [ServerId(Role.DRAFTER, i) for i in range(len(self.new_drafters))]

    @property
    def request(self) -> Request:
        """The request, fresh."""
        # Slots and dataclasses: super() without arguments would not find its class.
        request = super(SampledScenario, self).request
        return replace(request, rejection=self.sampling.rejection)

    @property
    def plain(self) -> tuple[list[int], FinishReason, list[TokenLogprobs]]:
        """What the target alone samples, a token a forward, and the log probabilities."""
        model = self.new_target()
        text: list[int] = []
        logprobs: list[TokenLogprobs] = []
        while True:
            path = (*self.prompt, *text)
            forwarded = extend_one(model, Extension("plain", path, len(path), self.sampling))
            text += forwarded.tokens
            logprobs += forwarded.logprobs
            finish = self.criteria.finish(len(text), text[-1])
            if finish is not None:
                return text, finish, logprobs

    @property
    def expected(self) -> tuple[list[int], FinishReason]:
        """What the target alone samples."""
        text, finish, _ = self.plain
        return text, finish

    def models(self) -> dict[ServerId, VirtualModel]:
        """A fresh model for each server; only the targets are asked for log probabilities."""
        models: dict[ServerId, VirtualModel] = {
            server: ServedModel(self.new_target(), self.sampling, latency(self.target_latencies))
            for server in self.targets
        }
        for server, new_drafter, durations in zip(
            self.drafter_servers, self.new_drafters, self.drafter_latencies, strict=False
        ):
            sampling = self.sampling.for_drafters
            models[server] = ServedModel(new_drafter(), sampling, latency(durations))
        return models


def everything_on(temperature: float, vocabulary: int, **fields: Any) -> SamplingParams:
    """Parameters of which none is neutral, for a vocabulary of at least 8 ids."""
    every: dict[str, Any] = {
        "temperature": temperature,
        "top_k": vocabulary - 2,
        "top_p": 0.97,
        "min_p": 0.01,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
        "logit_bias": {1: 1.5, 4: -1.0},
        "bad_token_ids": (3,),
        "allowed_token_ids": tuple(range(vocabulary - 1)),
        "logprobs": 2,
    }
    return SamplingParams(**(every | fields))
