"""Engine: the Python API of DSI groups."""

import asyncio
import contextlib
import functools
import sys
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from dsi_ray.config import EngineConfig
from dsi_ray.models.base import ModelInfo, Sampling
from dsi_ray.models.guided.compiler import GuideCompiler, GuideError
from dsi_ray.models.text.text_stream import TextStream
from dsi_ray.models.text.tokenizer import Tokenizer, load_tokenizer, text_after
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.group_handle import GroupHandle
from dsi_ray.runtime.client.groups import Groups
from dsi_ray.runtime.client.output_processor import OutputProcessor, complete
from dsi_ray.runtime.client.prompts import Prompts
from dsi_ray.runtime.client.request_check import check_request
from dsi_ray.runtime.client.text_facts import sampling_defaults
from dsi_ray.runtime.errors import RequestError
from dsi_ray.runtime.request import Chunk, Completion, Decoding, Generation
from dsi_ray.runtime.supervisor.host import hosted
from dsi_ray.runtime.trace.spans import Trace


class Engine:
    """Target and drafters on Ray, ready for requests.

    >>> with Engine(EngineConfig()) as engine:
    ...     print(engine.generate("def main(").text)

    Args:
        config: What it is made of.
        groups: Those that another process hosts, on the Ray that this one is connected to; None
            has some built here, which end with the engine.

    Attributes:
        config: What it was made of.
        tokenizer: The target's.
        target: Facts about the target model.
        sampling_defaults: Sampling parameters of requests that do not name them, from the
            target's generation_config.json; empty where that is off.
        max_model_len: Most tokens of prompt and output together.
        prompts: Turn prompts into tokens.
        kv_capacity: Tokens that the KV caches of all target servers hold. With many requests each
            lives on one server; few take more, for they are on several.

    Raises:
        ConfigError: The cluster has not the devices that the configuration asks for, or the
            target's generation_config.json asks for what cannot be.
        ModelError: A model cannot be used.
    """

    def __init__(self, config: EngineConfig | None = None, groups: Groups | None = None) -> None:
        self.config = config = config or EngineConfig()
        self.tokenizer: Tokenizer = load_tokenizer(config.target)
        self._host = contextlib.ExitStack()
        self._groups = groups or self._host.enter_context(hosted(config))
        info = self._groups.info
        self.target: ModelInfo = info.target
        self.sampling_defaults = sampling_defaults(config, info.target)
        self.max_model_len = min(info.max_context, config.max_model_len or info.max_context)
        self.prompts = Prompts(self.tokenizer, self.max_model_len)
        servers = config.sp_degree * config.num_groups
        self.kv_capacity = min(self.target.kv_capacity * servers, sys.maxsize)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(
        self, prompt: Sequence[int], params: SamplingParams, max_tokens: int | None = None
    ) -> None:
        """Checks that a request can be served, with so many tokens instead of those in ``params``.

        Raises:
            RequestError: It cannot.
        """
        check_request(prompt, params, self.target, self.max_model_len, max_tokens)
        if params.guide is not None:
            try:
                self._guides.check(params.guide)
            except GuideError as error:
                raise RequestError(f"this form cannot be enforced: {error}", "guide") from error

    def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        decoding: Decoding | None = None,
    ) -> Completion:
        """Generates a whole completion and returns it.

        Without ``params`` it is greedy, or as ``sampling_defaults`` say.

        Raises:
            RequestError: The request cannot be served as asked.
            GroupLost: The group that had it was lost: another try may succeed.
            EngineError: A server failed.
        """
        generation = self._generation(prompt, params, decoding)
        if generation.params.stop:
            return asyncio.run(self._gather(generation))
        with self._lend(generation) as group:
            whole = group.complete(generation)
        return complete(OutputProcessor(self._text(generation)).push(whole))

    async def stream(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        decoding: Decoding | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """Yields text as its tokens are committed. Closing it ends the request everywhere.

        Without ``params`` it is greedy, or as ``sampling_defaults`` say. ``request_id`` names the
        request for :meth:`trace`; it must be unique.

        Raises:
            RequestError: The request cannot be served as asked.
            GroupLost: The group that had it was lost: another try may succeed.
            EngineError: A server failed.
        """
        generation = self._generation(prompt, params, decoding, request_id)
        # Not an `async for` over the other generator: closing this one has to close that one.
        async with contextlib.aclosing(self._stream(generation)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def status(self) -> dict[str, Any]:
        """Whether there is a group that serves, and what each and each of its servers do now."""
        groups = await self._groups.status()
        return {"healthy": any(group["healthy"] for group in groups), "groups": groups}

    async def trace(self, request_id: str, since: float = 0.0) -> list[Trace]:
        """What each server did for a request, which may still run; for its parts ``id/0`` ... too.

        Empty if it is unknown: only the last requests are kept. Who follows a request gives the
        ``settled`` of the last trace as ``since``, and gets only what is new or has changed.
        """
        return await self._groups.trace(request_id, since)

    def close(self) -> None:
        """Ends all actors and frees their devices; ends Ray if this engine started it."""
        self._host.close()

    def _lend(self, generation: Generation) -> AbstractContextManager[GroupHandle]:
        return self._groups.lend(generation.prompt, generation.params.max_tokens)

    @functools.cached_property
    def _guides(self) -> GuideCompiler:
        return GuideCompiler(self.tokenizer, self.target.vocab_size)

    def _generation(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None,
        decoding: Decoding | None,
        request_id: str | None = None,
    ) -> Generation:
        params = params or SamplingParams(**self.sampling_defaults)
        tokens = self.prompts.tokens(prompt)
        self.check(tokens, params)
        eos = () if params.ignore_eos else self.target.eos_ids
        decoding = decoding or Decoding.default(self.config)
        return Generation(
            request_id or uuid.uuid4().hex,
            tokens,
            frozenset((*eos, *params.stop_token_ids)),
            Sampling.of(params, len(tokens), self.target, rejection=decoding.rejection),
            decoding,
        )

    def _text(self, generation: Generation) -> TextStream:
        return text_after(self.tokenizer, generation.prompt, generation.params)

    async def _gather(self, generation: Generation) -> Completion:
        async with contextlib.aclosing(self._stream(generation)) as chunks:
            return complete([chunk async for chunk in chunks])

    async def _stream(self, generation: Generation) -> AsyncGenerator[Chunk, None]:
        reply = OutputProcessor(self._text(generation))
        with self._lend(generation) as group:
            async with contextlib.aclosing(group.generate(generation)) as news:
                async for new in news:
                    was_over = reply.over
                    for chunk in reply.push(new):
                        yield chunk
                    if reply.over and not was_over and new.finish_reason is None:
                        # A stop string: the rest is not wanted, but what the request took is.
                        await group.stop(generation.id)
