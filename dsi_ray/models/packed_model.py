"""A model of transformers that computes the tokens of many sessions in one forward."""

import threading
from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dsi_ray.models.attention import use_packed_attention
from dsi_ray.models.base import ModelError
from dsi_ray.models.blocks import BlockPool
from dsi_ray.models.kv_cache import KVCache, Segment
from dsi_ray.models.packing import pack, run
from dsi_ray.models.paged import PagedCache

_TRIAL_BLOCKS = 2


class Job(NamedTuple):
    """One session's part of a forward.

    Attributes:
        tokens: All of the session's.
        wanted: For how many of the last ones logits are wanted.
        segment: What of them is computed, and where.
    """

    tokens: tuple[int, ...]
    wanted: int
    segment: Segment


class PackedModel:
    """A model and its memory for keys and values."""

    def __init__(self, name: str, model: Any) -> None:
        """Takes a causal model, in eval mode, and switches its attention.

        Raises:
            ModelError: A batch, or taking back a rejected draft, changes what the model says.
        """
        use_packed_attention(model)
        self._model = model
        self._device = model.get_input_embeddings().weight.device
        self._keeps_logits = "logits_to_keep" in signature(model.forward).parameters
        self._pools = PagedCache()
        self._try(name, model.get_input_embeddings().weight.shape[0])

    @property
    def bytes_per_token(self) -> int:
        """What a token takes in the KV cache."""
        return self._pools.bytes_per_token

    @torch.inference_mode()
    def forward(self, jobs: Sequence[Job], pool: BlockPool, stop: threading.Event) -> Tensor:
        """Computes what the segments lack.

        Args:
            jobs: At least one, each with something to compute.
            pool: Of the segments' blocks.
            stop: Ends the forward at the next layer.

        Returns:
            The wanted rows of logits, job by job: (rows, vocabulary).

        Raises:
            ForwardCancelled: ``stop`` was set in time.
        """
        packing = pack([job.segment for job in jobs], pool, stop, self._device)
        ids: list[int] = []
        rows = [range(0)] * len(jobs)
        for index in packing.order:
            tokens, wanted, segment = jobs[index]
            ids += tokens[segment.kept :]
            rows[index] = range(len(ids) - wanted, len(ids))
        keep = self._tensor([row for wanted_rows in rows for row in wanted_rows])
        with run(packing):
            output = self._model(
                input_ids=self._tensor([ids]),
                position_ids=packing.positions,
                cache=self._pools,
                use_cache=True,
                **({"logits_to_keep": keep} if self._keeps_logits else {}),
            )
        pool.recycled.clear()
        logits: Tensor = output.logits[0]
        return logits if self._keeps_logits else logits[keep]

    def _tensor(self, ids: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(ids, dtype=torch.long, device=self._device)

    def _try(self, name: str, vocab_size: int) -> None:
        """Compares a batch in which a draft is rejected with forwards of transformers' own."""
        long, short = (tuple(i % vocab_size for i in path) for path in ((1, 2, 3, 4, 5), (6, 7)))
        detour = (*long[:3], *short)
        cache = KVCache(_TRIAL_BLOCKS)
        try:
            expected = torch.cat([self._plain(long)[-2:], self._plain(short)[-1:]])
            self._try_batch(cache, {"long": detour, "short": short[:1]}, (1, 1))
            found = self._try_batch(cache, {"long": long, "short": short}, (2, 1))
        except Exception as error:
            raise ModelError(f"{name}: a trial forward failed ({error})") from error
        spread = (expected.max() - expected.min()).item()
        if (expected - found).abs().max().item() > spread / 100:
            raise ModelError(
                f"{name}: its cache cannot take back a rejected draft, or its attention cannot "
                "tell requests apart; use a model with plain attention in every layer"
            )

    def _try_batch(
        self, cache: KVCache, paths: dict[str, tuple[int, ...]], wanted: tuple[int, ...]
    ) -> Tensor:
        jobs = []
        for (key, path), rows in zip(paths.items(), wanted, strict=True):
            segment = cache.reserve(key, path, len(path) + 1 - rows, paths)
            assert segment is not None
            jobs.append(Job(path, rows, segment))
        logits = self.forward(jobs, cache.pool, threading.Event())
        for key, path in paths.items():
            cache.commit(key, path)
        return logits

    @torch.inference_mode()
    def _plain(self, path: tuple[int, ...]) -> Tensor:
        logits: Tensor = self._model(input_ids=self._tensor([list(path)]), use_cache=False).logits
        return logits[0]
