"""The generations behind one answer: each prompt times n, run at once."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Self

from dsi_ray.core.messages import FinishReason
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.errors import RequestError, RequestFailed
from dsi_ray.runtime.request import Chunk, Decoding
from dsi_ray.serving.admission.lengths import OutputLengths
from dsi_ray.serving.client import client
from dsi_ray.serving.middleware.deadline import Deadline, within
from dsi_ray.serving.openai.extension import DsiOptions
from dsi_ray.serving.openai.merge import merge
from dsi_ray.serving.schema.answers import Usage
from dsi_ray.serving.schema.generation import GenerationRequest
from dsi_ray.serving.service import Service


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation to be made; without ``params`` no token is wanted."""

    prompt: Sequence[int]
    params: SamplingParams | None

    def tokens(self, lengths: OutputLengths) -> int:
        """What it is likely to hold: its prompt and its output."""
        if self.params is None:
            return 0
        return len(self.prompt) + lengths.likely(self.params.max_tokens)


class Generations:
    """Runs the generations of one request and counts their tokens.

    Attributes:
        asks: One for each choice of the answer.
    """

    def __init__(
        self,
        service: Service,
        asks: Sequence[Ask],
        prompt_tokens: int,
        decoding: Decoding,
        answer_id: str,
        guide_field: str | None = None,
    ) -> None:
        self.asks = asks
        self._guide_field = guide_field
        self._decoding = decoding
        self._answer_id = answer_id
        self._service = service
        self._prompt_tokens = prompt_tokens
        self._completion_tokens = 0

    @classmethod
    def plan(
        cls,
        service: Service,
        request: GenerationRequest,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        answer_id: str,
    ) -> Self:
        """Returns all choices of a request in their order: those of the first prompt come first.

        Raises:
            RequestError: One of them cannot be run; then none is.
        """
        engine = service.engine
        # What a target without logits takes when nothing is said has to be something it can do.
        temperature = 1.0 if engine.target.has_logits else 0.0
        defaults = {"temperature": temperature, **engine.sampling_defaults}
        params = request.params(max(max_tokens, 1), defaults)
        for prompt in prompts:
            _check(service, request, prompt, params, max_tokens)
        choices = [prompt for prompt in prompts for _ in range(request.choices)]
        asks = [
            Ask(prompt, replace(params, seed=request.seed_of(index)) if max_tokens else None)
            for index, prompt in enumerate(choices)
        ]
        decoding = (request.dsi or DsiOptions()).decoding(engine.config)
        prompt_tokens = sum(map(len, prompts))
        return cls(service, asks, prompt_tokens, decoding, answer_id, request.guide_field)

    async def chunks(self) -> AsyncGenerator[tuple[int, Chunk]]:
        """Yields what is generated, each chunk with the index of its choice.

        However it ends, all generations end.

        Raises:
            ApiError: The server is full, the client has too much here, or the request took too
                long. Until the first chunk that is 503, 429 or 504.
            EngineError: A generation failed.
        """
        service = self._service
        deadline = Deadline.after(service.timeout_s)
        tokens = sum(ask.tokens(service.lengths) for ask in self.asks)
        async with service.gate.hold(client.get(), len(self.asks), tokens, deadline):
            merged = merge([self._stream(index, ask) for index, ask in enumerate(self.asks)])
            async with aclosing(within(deadline, merged)) as items:
                async for item in items:
                    yield item

    @property
    def usage(self) -> Usage:
        """The tokens so far. A prompt counts once, however many choices it has."""
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            total_tokens=self._prompt_tokens + self._completion_tokens,
        )

    async def _stream(self, index: int, ask: Ask) -> AsyncGenerator[Chunk]:
        if ask.params is None:
            yield Chunk("", (), FinishReason.LENGTH)
            return
        metrics, engine = self._service.metrics, self._service.engine
        metrics.prompt_tokens.inc(len(ask.prompt))
        # Traces of the request are found under this name.
        name = f"{self._answer_id}/{index}"
        stream = engine.stream(ask.prompt, ask.params, self._decoding, name)
        length = 0
        with metrics.in_flight.track_inprogress():
            async with aclosing(_renamed(stream, self._guide_field)) as chunks:
                async for chunk in chunks:
                    length += len(chunk.tokens)
                    self._completion_tokens += len(chunk.tokens)
                    metrics.completion_tokens.inc(len(chunk.tokens))
                    yield chunk
        self._service.lengths.note(length)


async def _renamed(stream: AsyncGenerator[Chunk], guide_field: str | None) -> AsyncGenerator[Chunk]:
    """What fails is called what the client calls it."""
    try:
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                yield chunk
    except RequestFailed as error:
        if error.param != "guide" or guide_field is None:
            raise
        raise RequestFailed(str(error), guide_field) from error


def _check(
    service: Service,
    request: GenerationRequest,
    prompt: Sequence[int],
    params: SamplingParams,
    max_tokens: int,
) -> None:
    try:
        service.engine.check(prompt, params, max_tokens)
    except RequestError as error:
        if error.param != "guide" or request.guide_field is None:
            raise
        # What the client calls it.
        raise RequestError(str(error), request.guide_field, error.code) from error
