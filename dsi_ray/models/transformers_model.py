"""Any causal language model of transformers, with a KV cache per session."""

import threading
from collections.abc import Callable, Sequence
from inspect import signature
from sys import maxsize
from typing import Any

import torch
from torch import Tensor

from dsi_ray.models.base import (
    CacheStats,
    Extension,
    ForwardCancelled,
    Forwarded,
    ModelError,
    ModelInfo,
)
from dsi_ray.models.checkpoint import eos_ids, max_context
from dsi_ray.models.guided.guides import Guides
from dsi_ray.models.kv_cache import Session, SessionStore
from dsi_ray.models.sampling import choose
from dsi_ray.models.tokenizer import Tokenizer


class TransformersModel:
    """A model of transformers behind `LanguageModel`."""

    def __init__(
        self,
        name: str,
        model: Any,
        vocab_size: int,
        kv_cache_bytes: int,
        load_tokenizer: Callable[[], Tokenizer] | None = None,
    ) -> None:
        """Takes a loaded model and tries whether its cache can be cropped.

        Args:
            name: For people.
            model: A causal model of transformers, in eval mode, on its device.
            vocab_size: Number of ids that the tokenizer can produce, up to which the model's are
                used.
            kv_cache_bytes: Idle sessions beyond this budget are evicted.
            load_tokenizer: Called for the first guided request; without it, and if it raises
                ModelError, guides are ignored, as only a drafter may.

        Raises:
            ModelError: Cropping the cache does not take back what was forwarded.
        """
        embeddings = model.get_input_embeddings().weight
        self._model = model
        self._device = embeddings.device
        self._known_ids = embeddings.shape[0]
        self._keeps_logits = "logits_to_keep" in signature(model.forward).parameters
        self._info = ModelInfo(
            name=name,
            vocab_size=vocab_size,
            max_context=max_context(model.config) or maxsize,
            eos_ids=eos_ids(model),
            parameters=sum(weights.numel() for weights in model.parameters()),
            dtype=str(embeddings.dtype).removeprefix("torch."),
            device=str(self._device),
        )
        self._sessions = SessionStore(kv_cache_bytes, self._try_cropping())
        self._guides = Guides(load_tokenizer, vocab_size)
        self._computed = 0
        self._reused = 0

    @property
    def info(self) -> ModelInfo:
        """Facts about the model; constant."""
        return self._info

    @property
    def cache_stats(self) -> CacheStats:
        """The KV cache now."""
        return CacheStats(
            sessions=len(self._sessions),
            bytes=self._sessions.bytes,
            evictions=self._sessions.evictions,
            computed_tokens=self._computed,
            reused_tokens=self._reused,
        )

    def cached(self, session: str, tokens: Sequence[int]) -> int:
        """Returns how many of ``tokens`` the session's cache holds."""
        return self._sessions.cached(session, tuple(tokens))

    def extend(
        self, batch: Sequence[Extension], stop: threading.Event
    ) -> list[Forwarded | Exception]:
        """Computes one forward for several sessions; see `LanguageModel`."""
        return [self._outcome(part, stop) for part in batch]

    def _outcome(self, part: Extension, stop: threading.Event) -> Forwarded | Exception:
        try:
            return self._extend(part, stop)
        except ForwardCancelled:
            raise
        except Exception as error:
            return error

    def _extend(self, part: Extension, stop: threading.Event) -> Forwarded:
        path = part.tokens
        kept = min(self.cached(part.session, path), part.start - 1)
        if kept == len(path):
            return Forwarded([])
        self._check(path, kept)
        state = self._sessions.open(part.session)
        self._sessions.make_room(len(path) - kept)
        self._sessions.running.stop = stop
        logits = self._forward(state, path, kept, part.wanted)
        self._computed += len(path) - kept
        self._reused += kept
        if not part.wanted:
            return Forwarded([])
        allowed = self._guides.allowed(part.session, path, part.wanted, part.sampling)
        return choose(logits[:, : self._info.vocab_size], path, part.sampling, allowed)

    def release(self, session: str) -> None:
        """Frees what the session holds; an unknown session is fine."""
        self._sessions.release(session)
        self._guides.release(session)

    def _check(self, path: tuple[int, ...], kept: int) -> None:
        if len(path) > self._info.max_context:
            raise ModelError(
                f"{len(path)} tokens are more than the {self._info.max_context} that "
                f"{self._info.name} takes; shorten the prompt or max_tokens"
            )
        # On a GPU an id without an embedding would end the whole process.
        if max(path[kept:]) >= self._known_ids or min(path[kept:]) < 0:
            raise ModelError(f"{self._info.name} knows only token ids below {self._known_ids}")

    @torch.inference_mode()
    def _forward(self, state: Session, path: tuple[int, ...], kept: int, wanted: int) -> Tensor:
        """Computes ``path[kept:]`` after the first ``kept`` cached tokens.

        Returns the last ``wanted`` (at least one) rows of logits: (rows, vocabulary).
        """
        if kept < len(state.tokens):
            state.keep(kept)
        rows = max(wanted, 1)
        options = {"logits_to_keep": rows} if self._keeps_logits else {}
        ids = torch.tensor([path[kept:]], device=self._device)
        try:
            output = self._model(input_ids=ids, cache=state.cache, use_cache=True, **options)
        except BaseException:
            state.keep(kept)
            raise
        state.tokens = path
        logits: Tensor = output.logits[0, -rows:]
        return logits

    def _try_cropping(self) -> int:
        """Makes a detour of two tokens, crops it and compares with a session that made none.

        Returns the bytes that a token takes in the cache.
        """
        store = SessionStore(budget=0, bytes_per_token=0)
        straight, detour = store.open("straight"), store.open("detour")
        path = tuple(i % self._info.vocab_size for i in (1, 2, 3, 4, 5, 6))
        other = tuple(i % self._info.vocab_size for i in (7, 8))
        try:
            for state in (straight, detour):
                self._forward(state, path[:4], 0, 1)
            self._forward(detour, path[:4] + other, 4, 2)
            expected = self._forward(straight, path, 4, 2)
            found = self._forward(detour, path, 4, 2)
        except Exception as error:
            raise ModelError(f"{self._info.name}: a trial forward failed ({error})") from error
        spread = (expected.max() - expected.min()).item()
        if straight.lengths != {len(path)} or (expected - found).abs().max().item() > spread / 100:
            raise ModelError(
                f"{self._info.name}: its cache cannot take back a rejected draft; use a model "
                "with attention in every layer"
            )
        return straight.bytes // len(path)
