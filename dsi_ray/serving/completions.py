"""``POST /v1/completions``: from a request to an answer, whole or streamed."""

import json
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from dsi_ray.runtime.admission import check_request
from dsi_ray.runtime.engine import Engine
from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.errors import to_api_error
from dsi_ray.serving.event_stream import EventStream
from dsi_ray.serving.extension import DsiOptions
from dsi_ray.serving.merge import merge
from dsi_ray.serving.schema import Choice, Completion, CompletionRequest, Usage

_DONE = "data: [DONE]\n\n"


async def create_completion(engine: Engine, request: CompletionRequest) -> Response | Completion:
    """Answers ``request``; its generation ends when the client goes away.

    Raises:
        RequestError: The request cannot be run. Raised before a stream starts.
    """
    job = _Job(engine, request)
    if not request.stream:
        return await job.answer()
    return await EventStream.start(job.events())


class _Job:
    """One request: its generations, one for each prompt, and the answer that they fill."""

    def __init__(self, engine: Engine, request: CompletionRequest) -> None:
        self._engine = engine
        self._request = request
        # All are checked before any starts: an error gets its own status, also for a stream.
        self._prompts = [_encode(engine, prompt, request) for prompt in request.prompts]
        self._decoding = (request.dsi or DsiOptions()).decoding(engine.config)
        self._id = f"cmpl-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._completion_tokens = 0

    async def answer(self) -> Completion:
        """Returns the whole texts."""
        choices = [Choice(index=index, text="") for index in range(len(self._prompts))]
        async with aclosing(self._chunks()) as chunks:
            async for index, chunk in chunks:
                choices[index].text += chunk.text
                choices[index].finish_reason = chunk.finish_reason
        return self._completion(choices, self._usage)

    async def events(self) -> AsyncGenerator[str]:
        """Yields the texts as server-sent events.

        An error before the first one is raised. A later one is the last event, without
        ``[DONE]``, so that nobody takes it for success.
        """
        started = False
        try:
            async with aclosing(self._chunks()) as chunks:
                async for index, chunk in chunks:
                    if event := self._chunk_events(index, chunk):
                        yield event
                        started = True
        except Exception as error:
            if not started:
                raise
            yield _event(json.dumps(to_api_error(error).envelope))
            return
        if self._request.include_usage:
            yield self._event([], self._usage)
        yield _DONE

    async def _chunks(self) -> AsyncGenerator[tuple[int, Chunk]]:
        params = self._request.params
        streams = [
            self._engine.stream(prompt, params, self._decoding, f"{self._id}/{index}")
            for index, prompt in enumerate(self._prompts)
        ]
        async with aclosing(merge(streams)) as merged:
            async for index, chunk in merged:
                self._completion_tokens += len(chunk.tokens)
                yield index, chunk

    def _chunk_events(self, index: int, chunk: Chunk) -> str:
        """The reason to finish comes in an event of its own, as clients know it."""
        events = ""
        if chunk.text:
            events += self._event([Choice(index=index, text=chunk.text)])
        if chunk.finish_reason is not None:
            events += self._event([Choice(index=index, text="", finish_reason=chunk.finish_reason)])
        return events

    def _event(self, choices: list[Choice], usage: Usage | None = None) -> str:
        return _event(self._completion(choices, usage).model_dump_json())

    def _completion(self, choices: list[Choice], usage: Usage | None) -> Completion:
        return Completion(
            id=self._id,
            created=self._created,
            model=self._request.model,
            choices=choices,
            usage=usage,
        )

    @property
    def _usage(self) -> Usage:
        prompt_tokens = sum(map(len, self._prompts))
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=self._completion_tokens,
            total_tokens=prompt_tokens + self._completion_tokens,
        )


def _encode(engine: Engine, prompt: str | list[int], request: CompletionRequest) -> list[int]:
    tokens = engine.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    check_request(tokens, request.params, engine.target, engine.max_model_len)
    return tokens


def _event(data: str) -> str:
    return f"data: {data}\n\n"
