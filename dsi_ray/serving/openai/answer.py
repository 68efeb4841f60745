"""From generations to an answer, whole or streamed, whatever the endpoint."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Generic

from starlette.responses import Response

from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.errors import to_api_error
from dsi_ray.serving.openai.event_stream import EventStream
from dsi_ray.serving.openai.generations import Generations
from dsi_ray.serving.openai.writer import C, Writer
from dsi_ray.serving.schema.answers import AnyAnswer, RequestMetrics, Usage
from dsi_ray.serving.schema.generation import GenerationRequest
from dsi_ray.serving.speculation import speculation

_DONE = "data: [DONE]\n\n"


async def respond(
    request: GenerationRequest, generations: Generations, writer: Writer[C]
) -> Response | AnyAnswer:
    """Answers a request; its generations end when the client goes away.

    Raises:
        ApiError: The server is full, the client has too much here, or the request took too long.
            Raised before a stream starts.
        EngineError: A generation failed, before a stream started.
    """
    if not request.stream:
        return await _whole(generations, writer)
    return await EventStream.start(_Stream(request, generations, writer).events())


async def _whole(generations: Generations, writer: Writer[C]) -> AnyAnswer:
    parts: list[list[Chunk]] = [[] for _ in generations.asks]
    async with aclosing(generations.chunks()) as chunks:
        async for index, chunk in chunks:
            parts[index].append(chunk)
    choices = [_join(chunks) for chunks in parts]
    metrics = speculation(choices[0].stats) if len(choices) == 1 else None
    return writer.whole(choices, generations.usage, metrics)


def _join(chunks: Sequence[Chunk]) -> Chunk:
    return Chunk(
        "".join(chunk.text for chunk in chunks),
        tuple(token for chunk in chunks for token in chunk.tokens),
        chunks[-1].finish_reason,
        chunks[-1].stats,
        tuple(entry for chunk in chunks for entry in chunk.logprobs),
        tuple(offset for chunk in chunks for offset in chunk.offsets),
    )


class _Stream(Generic[C]):
    """An answer as server-sent events."""

    def __init__(
        self, request: GenerationRequest, generations: Generations, writer: Writer[C]
    ) -> None:
        self._request = request
        self._generations = generations
        self._writer = writer
        self._opened: set[int] = set()
        self._metrics: RequestMetrics | None = None
        self._shows_tokens = (
            request.wanted_logprobs is not None
            or bool(request.return_token_ids)
            or request.continuous_usage
        )

    async def events(self) -> AsyncGenerator[str]:
        """Yields the answer.

        An error before the first event is raised. A later one is the last event, without
        ``[DONE]``, so that nobody takes it for success.
        """
        started = False
        try:
            async with aclosing(self._generations.chunks()) as chunks:
                async for index, chunk in chunks:
                    if events := self._events(index, chunk):
                        yield events
                        started = True
        except Exception as error:
            if not started:
                raise
            yield _event(to_api_error(error).envelope.model_dump_json())
            return
        if self._request.include_usage:
            yield self._event(None, self._generations.usage, self._metrics)
        yield _DONE

    def _events(self, index: int, chunk: Chunk) -> str:
        """What one chunk adds, as events; none where its text is held back."""
        choices: list[C | None] = []
        if chunk.text or (chunk.tokens and self._shows_tokens):
            choices.append(self._writer.news(index, chunk))
        if chunk.finish_reason is not None:
            choices.append(self._writer.ending(index, chunk))
            if len(self._generations.asks) == 1:
                self._metrics = speculation(chunk.stats)
        if choices and index not in self._opened:
            self._opened.add(index)
            choices.insert(0, self._writer.opening(index))
        usage = self._generations.usage if self._request.continuous_usage else None
        return "".join(self._event(choice, usage) for choice in choices if choice is not None)

    def _event(
        self, choice: C | None, usage: Usage | None, metrics: RequestMetrics | None = None
    ) -> str:
        return _event(self._writer.part(choice, usage, metrics).model_dump_json())


def _event(data: str) -> str:
    return f"data: {data}\n\n"
