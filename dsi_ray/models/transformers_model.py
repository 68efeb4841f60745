"""Any causal language model of transformers, with a KV cache for many sessions."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dsi_ray.core.path import Path
from dsi_ray.models.base import (
    CacheStats,
    Extension,
    ForwardCancelled,
    Forwarded,
    ModelError,
    ModelInfo,
    NoRoom,
)
from dsi_ray.models.checkpoints.checkpoint import context_reason
from dsi_ray.models.forward.device_errors import is_device_lost, is_out_of_memory, loud_if_lost
from dsi_ray.models.forward.packed_model import PackedJob, PackedModel, PackedStep
from dsi_ray.models.forward.parallel import RankLeader
from dsi_ray.models.forward.trial import try_out
from dsi_ray.models.guided.guides import Guides
from dsi_ray.models.kv.blocks import BLOCK_TOKENS
from dsi_ray.models.kv.kv_cache import KVCache, Segment
from dsi_ray.models.sampling import Occurrences, choose, is_plain
from dsi_ray.models.text.tokenizer import Tokenizer

_LOGGER = logging.getLogger(__name__)

Outcomes = dict[str, Forwarded | Exception]
Admitted = list[tuple[Extension, Segment]]


class OutOfMemory(ModelError):
    """A forward did not fit into its device's memory."""

    def __init__(self) -> None:
        super().__init__(
            "the device's memory is too small for a forward beside weights and KV cache; lower "
            "kv_cache_bytes or prefill_chunk"
        )


class TransformersModel:
    """A model of transformers behind `LanguageModel`."""

    def __init__(
        self,
        name: str,
        model: Any,
        vocab_size: int,
        kv_cache_bytes: int | Callable[[PackedModel], int],
        load_tokenizer: Callable[[], Tokenizer] | None = None,
        leader: RankLeader | None = None,
        *,
        eos_ids: tuple[int, ...] = (),
        sampling_defaults: tuple[tuple[str, float], ...] = (),
    ) -> None:
        """Takes a loaded model and tries whether sessions can be computed together.

        Args:
            name: For people.
            model: A causal model of transformers, in eval mode, on its device; its attention is
                switched to one that also does batches.
            vocab_size: Number of ids that the tokenizer can produce, up to which the model's are
                used.
            kv_cache_bytes: Budget of the KV cache, on each device; or who tells it once the model
                has been tried.
            load_tokenizer: Called for the first guided request; without it, and if it raises
                ModelError, guides are ignored, as only a drafter may.
            leader: Of the processes that hold the model's other shards, if it has any.
            eos_ids: As in `ModelInfo`.
            sampling_defaults: As in `ModelInfo`.

        Raises:
            ModelError: A batch, or taking back a rejected draft, changes what the model says; or
                the budget is too small for anything.
        """
        embeddings = model.get_input_embeddings().weight
        packed = PackedModel(model)
        # All ranks do this at once; only later forwards have to be led.
        try_out(name, packed)
        self._forward = (
            packed.forward if leader is None else partial(leader.forward, packed.forward)
        )
        # All ranks do this at once, too.
        self._budget = kv_cache_bytes(packed) if callable(kv_cache_bytes) else kv_cache_bytes
        self._block_bytes = packed.bytes_per_token * BLOCK_TOKENS
        if self._budget < self._block_bytes:
            raise ModelError(
                f"{name}: kv_cache_bytes must be {self._block_bytes} or more, the size of a block, "
                f"and is {self._budget}; where it is auto the device has no more room: take more "
                "devices (parallel), or a smaller dtype or prefill_chunk"
            )
        # A GPU's memory is shared: what is not taken at the start may be gone when it is needed.
        at_once = embeddings.device.type == "cuda"
        self._cache = KVCache(self._budget // self._block_bytes, at_once=at_once)
        self._known_ids = packed.known_ids
        self._info = ModelInfo(
            name=name,
            vocab_size=vocab_size,
            max_context=packed.max_context,
            context_reason=context_reason(model.config),
            eos_ids=eos_ids,
            parameters=sum(weights.numel() for weights in model.parameters()),
            dtype=str(embeddings.dtype).removeprefix("torch."),
            device=str(embeddings.device),
            kv_bytes_per_token=packed.bytes_per_token,
            kv_capacity=self._cache.pool.capacity * BLOCK_TOKENS,
            sampling_defaults=sampling_defaults,
        )
        self._guides = Guides(load_tokenizer, vocab_size)
        self._occurrences: dict[str, Occurrences] = {}
        self._computed = self._reused = self._shared = 0

    @property
    def info(self) -> ModelInfo:
        """Facts about the model; constant."""
        return self._info

    @property
    def cache_stats(self) -> CacheStats:
        """The KV cache now."""
        pool = self._cache.pool
        return CacheStats(
            sessions=len(self._cache),
            bytes=pool.used * self._block_bytes,
            cached_bytes=pool.evictable * self._block_bytes,
            budget_bytes=self._budget,
            evictions=pool.evictions,
            preemptions=self._cache.preemptions,
            computed_tokens=self._computed,
            reused_tokens=self._reused,
            shared_tokens=self._shared,
        )

    def cached(self, session: str, tokens: Sequence[int]) -> int:
        """Returns how many of ``tokens`` need not be computed."""
        return self._cache.cached(session, Path.of(tokens))

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """Computes one forward for several sessions; see `LanguageModel`.

        A part that does not fit into the KV cache alone has a `ModelError`. If the forward fails,
        each part is tried alone, so that only the one to blame fails; one that was alone is tried
        again where the device was out of memory, for some has become free.
        """
        outcomes: Outcomes = {}
        self._cache.rank([part.session for part in batch])
        if admitted := self._admit(batch, outcomes):
            with loud_if_lost():
                self._compute(admitted, stop, outcomes)
        return [outcomes[part.session] for part in batch]

    def release(self, session: str) -> None:
        """Ends a session, whose prefix others may still use; an unknown one is fine."""
        self._cache.release(session)
        self._guides.release(session)
        self._occurrences.pop(session, None)

    def _admit(self, parts: Sequence[Extension], outcomes: Outcomes) -> Admitted:
        """Returns what can be computed now, all at once."""
        admitted: Admitted = []
        for part in parts:
            try:
                segment = self._reserve(part, {other.session for other, _ in admitted})
            except ModelError as error:
                outcomes[part.session] = error
                continue
            if segment is None:
                outcomes[part.session] = NoRoom()
            elif segment.cached == segment.length:
                outcomes[part.session] = Forwarded([])
            else:
                admitted.append((part, segment))
        return admitted

    def _reserve(self, part: Extension, batch: set[str]) -> Segment | None:
        """Finds room for one more part; None if it must wait for the others of the batch."""
        tokens, name = part.tokens, self._info.name
        if len(tokens) > self._info.max_context:
            raise ModelError(
                f"{len(tokens)} tokens are more than the {self._info.max_context} that {name} "
                "takes; shorten the prompt or max_tokens"
            )
        segment = self._cache.reserve(part.session, tokens, part.start, batch)
        if segment is None and not batch:
            raise ModelError(
                f"{len(tokens)} tokens are more than the {self._info.kv_capacity} that the KV "
                f"cache of {name} holds; shorten the prompt or max_tokens, or raise kv_cache_bytes"
            )
        # On a GPU an id without an embedding would end the whole process.
        new = () if segment is None else tokens[segment.cached :]
        if not all(0 <= token < self._known_ids for token in new):
            raise ModelError(f"{name} knows only token ids below {self._known_ids}")
        return segment

    def _compute(
        self,
        admitted: Admitted,
        stop: threading.Event,
        outcomes: Outcomes,
        *,
        is_retry: bool = False,
    ) -> None:
        pool = self._cache.pool
        jobs = [
            PackedJob(part.tokens[segment.cached :], part.wanted, segment)
            for part, segment in admitted
        ]
        logits = self._run(PackedStep.of(jobs, pool), stop)
        if isinstance(logits, Exception):
            can_retry = not is_retry and (len(admitted) > 1 or isinstance(logits, OutOfMemory))
            for one in admitted:
                if can_retry:
                    self._compute([one], stop, outcomes, is_retry=True)
                else:
                    outcomes[one[0].session] = logits
            return
        pool.recycled.clear()
        for part, segment in admitted:
            self._cache.commit(part.session, part.tokens)
            self._computed += segment.length - segment.cached
            self._reused += segment.cached - segment.shared
            self._shared += segment.shared
        self._choose([part for part, _ in admitted], logits, outcomes)

    def _run(self, step: PackedStep, stop: threading.Event) -> Tensor | Exception:
        """The logits of a forward, or why there are none."""
        try:
            return self._forward(step, stop)
        except ForwardCancelled:
            raise
        except Exception as error:
            if is_device_lost(error):
                raise
            is_full = is_out_of_memory(error)
            # With its traceback, in a log's record too, it would keep the forward's tensors.
            _LOGGER.warning("a forward failed: %s", str(error), exc_info=None if is_full else error)
            failure = OutOfMemory() if is_full else error
        if isinstance(failure, OutOfMemory):
            torch.cuda.empty_cache()
        return failure

    def _choose(self, parts: list[Extension], all_logits: Tensor, outcomes: Outcomes) -> None:
        """Chooses each part's tokens from its rows of logits, which come in the same order."""
        all_logits = all_logits[:, : self._info.vocab_size]
        plain = [is_plain(part.sampling, self._info.vocab_size) for part in parts]
        likeliest = all_logits.argmax(-1).tolist() if any(plain) else []
        first = 0
        for part, is_likeliest in zip(parts, plain, strict=True):
            end = first + part.wanted
            try:
                outcomes[part.session] = (
                    Forwarded(likeliest[first:end])
                    if is_likeliest or not part.wanted
                    else self._sample(part, all_logits[first:end])
                )
            except Exception as error:
                if is_device_lost(error):
                    raise
                outcomes[part.session] = error
            first = end

    def _sample(self, part: Extension, logits: Tensor) -> Forwarded:
        allowed = self._guides.allowed(part.session, part.tokens, part.wanted, part.sampling)
        occurrences = self._occurrences.setdefault(part.session, Occurrences())
        return choose(logits, part.tokens, part.sampling, allowed, part.proposals, occurrences)
