"""Engine: the Python API of one DSI group."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import ray
from ray.util.placement_group import remove_placement_group

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.core.messages import FinishReason
from dsi_ray.models.base import ModelError, ModelInfo
from dsi_ray.models.text_stream import Piece, TextStream
from dsi_ray.models.tokenizer import Tokenizer, load_tokenizer
from dsi_ray.models.vocabulary import check_vocabularies
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.coordinator import Coordinator, GroupInfo
from dsi_ray.runtime.errors import EngineError, RequestError
from dsi_ray.runtime.placement import bundles, create_placement_group, in_bundle
from dsi_ray.runtime.request import Chunk, Completion, Decoding, Generation, TokenChunk

_PLACEMENT_TIMEOUT_S = 60


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
        with _engine_errors():
            whole: TokenChunk = ray.get(self._coordinator.complete.remote(generation))
        text = self._text(generation)
        return _completion([_chunk(text, whole)])

    async def stream(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        decoding: Decoding | None = None,
    ) -> AsyncIterator[Chunk]:
        """Yields text as its tokens are committed. Closing it ends the request everywhere.

        Raises:
            RequestError: The request cannot be served as asked.
            EngineError: A server failed.
        """
        generation = self._generation(prompt, params or SamplingParams(), decoding)
        # Not an `async for` over the other generator: closing this one has to close that one.
        async with contextlib.aclosing(self._stream(generation)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def status(self) -> dict[str, Any]:
        """What the group and each of its servers do now."""
        with _engine_errors():
            return await self._coordinator.status.remote()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends all actors and frees their devices; ends Ray if this engine started it."""
        if hasattr(self, "_coordinator"):
            ray.kill(self._coordinator)
        remove_placement_group(self._group)
        if self._owns_ray:
            ray.shutdown()

    def _load(self) -> GroupInfo:
        """Waits for the models; an error of theirs is the caller's."""
        try:
            return ray.get(self._coordinator.start.remote())  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError as error:
            raise root_cause(error) from None
        except ray.exceptions.RayActorError as error:
            raise EngineError(f"the group did not start: {error}") from error

    def _start(self) -> Any:
        try:
            ray.get(self._group.ready(), timeout=_PLACEMENT_TIMEOUT_S)
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
        self, prompt: str | Sequence[int], params: SamplingParams, decoding: Decoding | None
    ) -> Generation:
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        check_request(tokens, params, self.target, self.max_model_len)
        eos = () if params.ignore_eos else self.target.eos_ids
        return Generation(
            uuid.uuid4().hex,
            tokens,
            frozenset((*eos, *params.stop_token_ids)),
            params,
            decoding or Decoding.default(self.config),
        )

    def _text(self, generation: Generation) -> TextStream:
        return TextStream(self.tokenizer, generation.prompt, generation.params.stop)

    async def _gather(self, generation: Generation) -> Completion:
        async with contextlib.aclosing(self._stream(generation)) as chunks:
            return _completion([chunk async for chunk in chunks])

    async def _stream(self, generation: Generation) -> AsyncGenerator[Chunk, None]:
        text = self._text(generation)
        with _engine_errors():
            items = self._coordinator.generate.options(num_returns="streaming").remote(generation)
            finished = False
            try:
                async for item in items:
                    chunk = _chunk(text, await item)
                    finished = chunk.stats is not None
                    if chunk.finish_reason is not None and not finished:
                        stats = await self._coordinator.stop.remote(generation.id)
                        chunk = replace(chunk, stats=stats)
                    yield chunk
                    if chunk.finish_reason is not None:
                        return
            finally:
                if not finished:
                    ray.cancel(items)


def connect(address: str | None) -> bool:
    """Connects to a Ray cluster, or starts one here; returns whether this call did it."""
    if ray.is_initialized():
        return False
    try:
        ray.init(address=address or "local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except ConnectionError as error:
        raise ConfigError(f"no Ray cluster answers at {address}: start one or leave it out") from error
    return True


def check_request(
    tokens: Sequence[int], params: SamplingParams, target: ModelInfo, max_model_len: int
) -> None:
    """Checks that the target can take a request.

    Raises:
        RequestError: It cannot.
    """
    if not tokens:
        raise RequestError("the prompt is empty: give at least one token", "prompt")
    wrong = next((token for token in tokens if not 0 <= token < target.vocab_size), None)
    if wrong is not None:
        raise RequestError(
            f"token id {wrong} is not in the vocabulary of {target.vocab_size} ids", "prompt"
        )
    if len(tokens) + params.max_tokens > max_model_len:
        raise RequestError(
            f"the context holds {max_model_len} tokens, but the prompt has {len(tokens)} and "
            f"max_tokens asks for {params.max_tokens} more: shorten the prompt or lower max_tokens",
            "prompt" if len(tokens) >= max_model_len else "max_tokens",
            code="context_length_exceeded",
        )


def _chunk(text: TextStream, new: TokenChunk) -> Chunk:
    """The text of newly committed tokens; cut where a stop string ends it."""
    ends_with_stop_id = new.finish_reason is FinishReason.STOP
    piece = text.push(new.tokens[:-1] if ends_with_stop_id else new.tokens)
    if not piece.stopped and new.finish_reason is not None:
        rest = text.finish()
        piece = Piece(piece.text + rest.text, piece.used, rest.stopped)
    if piece.stopped:
        return Chunk(piece.text, new.tokens[: piece.used], FinishReason.STOP, new.stats)
    return Chunk(piece.text, new.tokens, new.finish_reason, new.stats)


def _completion(chunks: list[Chunk]) -> Completion:
    last = chunks[-1]
    assert last.finish_reason is not None and last.stats is not None
    return Completion(
        "".join(chunk.text for chunk in chunks),
        tuple(token for chunk in chunks for token in chunk.tokens),
        last.finish_reason,
        last.stats,
    )


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Turns Ray's errors into those of this package."""
    try:
        yield
    except ray.exceptions.RayActorError as error:
        raise EngineError("the coordinator was lost") from error
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, EngineError):
            raise error.cause from None
        raise
