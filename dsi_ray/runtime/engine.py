"""Engine: the Python API of one DSI group."""

import asyncio
import contextlib
import functools
import uuid
import weakref
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Self

import ray
from ray.util.placement_group import remove_placement_group

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.models.base import ModelInfo, Sampling
from dsi_ray.models.guided.compiler import GuideCompiler, GuideError
from dsi_ray.models.text_stream import TextStream
from dsi_ray.models.tokenizer import Tokenizer, Verbatim, load_tokenizer
from dsi_ray.models.vocabulary import check_vocabularies
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.admission import check_request
from dsi_ray.runtime.cluster import connect, disconnect
from dsi_ray.runtime.coordinator import Coordinator, GroupInfo
from dsi_ray.runtime.errors import EngineError, RequestError
from dsi_ray.runtime.link import Link
from dsi_ray.runtime.placement import bundles, create_placement_group, in_bundle
from dsi_ray.runtime.ray_errors import engine_errors, root_cause
from dsi_ray.runtime.reply import Reply, complete
from dsi_ray.runtime.request import Chunk, Completion, Decoding, Generation, TokenChunk
from dsi_ray.runtime.trace.spans import Trace


class Engine:
    """Target and drafters on Ray, ready for requests.

    >>> with Engine(EngineConfig()) as engine:
    ...     print(engine.generate("def main(").text)

    Attributes:
        config: What it was made of.
        tokenizer: The target's.
        target: Facts about the target model.
        max_model_len: Most tokens of prompt and output together.

    Raises:
        ConfigError: The cluster has not the devices that the configuration asks for.
        ModelError: A model cannot be used.
    """

    def __init__(self, config: EngineConfig | None = None) -> None:
        self.config = config = config or EngineConfig()
        for drafter in config.drafters:
            check_vocabularies(config.target, drafter)
        self.tokenizer: Tokenizer = load_tokenizer(config.target)
        self._owns_ray = connect(config.address)
        self._group = create_placement_group(config)
        self._links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Link] = (
            weakref.WeakKeyDictionary()
        )
        try:
            self._coordinator = self._start()
            info = self._load()
        except BaseException:
            self.close()
            raise
        self.target: ModelInfo = info.target
        self.max_model_len = min(info.max_context, config.max_model_len or info.max_context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, prompt: Sequence[int], params: SamplingParams) -> None:
        """Checks that a request can be served.

        Raises:
            RequestError: It cannot.
        """
        check_request(prompt, params, self.target, self.max_model_len)
        if params.guide is not None:
            try:
                self._guides.matcher(params.guide)
            except GuideError as error:
                raise RequestError(f"this form cannot be enforced: {error}", "guide") from error

    def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        decoding: Decoding | None = None,
    ) -> Completion:
        """Generates a whole completion and returns it.

        Raises:
            RequestError: The request cannot be served as asked.
            EngineError: A server failed.
        """
        generation = self._generation(prompt, params or SamplingParams(), decoding)
        if generation.params.stop:
            return asyncio.run(self._gather(generation))
        with engine_errors():
            whole: TokenChunk = ray.get(self._coordinator.complete.remote(generation))
        return complete(Reply(self._text(generation)).push(whole))

    async def stream(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        decoding: Decoding | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """Yields text as its tokens are committed. Closing it ends the request everywhere.

        ``request_id`` names the request for :meth:`trace`; it must be unique.

        Raises:
            RequestError: The request cannot be served as asked.
            EngineError: A server failed.
        """
        generation = self._generation(prompt, params or SamplingParams(), decoding, request_id)
        # Not an `async for` over the other generator: closing this one has to close that one.
        async with contextlib.aclosing(self._stream(generation)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def status(self) -> dict[str, Any]:
        """What the group and each of its servers do now."""
        with engine_errors():
            return await self._coordinator.status.remote()  # type: ignore[no-any-return]

    async def trace(self, request_id: str, since: float = 0.0) -> list[Trace]:
        """What each server did for a request, which may still run; for its parts ``id/0`` ... too.

        Empty if it is unknown: only the last requests are kept. Who follows a request gives the
        ``settled`` of the last trace as ``since``, and gets only what is new or has changed.
        """
        with engine_errors():
            traces: list[Trace] = await self._coordinator.trace.remote(request_id, since)
            return traces

    def close(self) -> None:
        """Ends all actors and frees their devices; ends Ray if this engine started it."""
        if hasattr(self, "_coordinator"):
            ray.kill(self._coordinator)
        remove_placement_group(self._group)
        if self._owns_ray:
            disconnect()

    def _load(self) -> GroupInfo:
        """Waits for the models; an error of theirs is the caller's."""
        try:
            return ray.get(self._coordinator.start.remote())  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError as error:
            raise root_cause(error) from None
        except ray.exceptions.RayActorError as error:
            raise EngineError(f"the group did not start: {error}") from error

    @functools.cached_property
    def _guides(self) -> GuideCompiler:
        return GuideCompiler(self.tokenizer, self.target.vocab_size)

    def _start(self) -> Any:
        try:
            ray.get(self._group.ready(), timeout=self.config.placement_timeout_s)
        except ray.exceptions.GetTimeoutError:
            raise ConfigError(
                f"the cluster has no room for the group's bundles {bundles(self.config)}: "
                "ask for fewer servers or devices, or add nodes"
            ) from None
        actor = ray.remote(Coordinator).options(
            num_cpus=0,
            scheduling_strategy=in_bundle(self._group, 0),
            max_concurrency=10_000,
            enable_task_events=False,
        )
        return actor.remote(self.config, self._group)

    def _generation(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        decoding: Decoding | None,
        request_id: str | None = None,
    ) -> Generation:
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
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
        params = generation.params
        decoder = self.tokenizer if params.skip_special_tokens else Verbatim(self.tokenizer)
        return TextStream(decoder, generation.prompt, params.stop)

    async def _gather(self, generation: Generation) -> Completion:
        async with contextlib.aclosing(self._stream(generation)) as chunks:
            return complete([chunk async for chunk in chunks])

    async def _stream(self, generation: Generation) -> AsyncGenerator[Chunk, None]:
        reply = Reply(self._text(generation))
        link = self._links.setdefault(asyncio.get_running_loop(), Link(self._coordinator))
        async with contextlib.aclosing(link.generate(generation)) as news:
            async for new in news:
                was_over = reply.over
                for chunk in reply.push(new):
                    yield chunk
                if reply.over and not was_over and new.finish_reason is None:
                    # A stop string: the rest is not wanted, but what the request took is.
                    await self._coordinator.stop.remote(generation.id)
