"""A model of transformers that computes the tokens of many sessions in one forward."""

from collections.abc import Sequence
from inspect import signature
from sys import maxsize
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache

from dsi_ray.models.checkpoints.checkpoint import max_context
from dsi_ray.models.forward.attention import use_packed_attention
from dsi_ray.models.forward.packing import StopSignal, pack, run
from dsi_ray.models.kv.blocks import BLOCK_TOKENS, BlockPool
from dsi_ray.models.kv.kv_cache import Segment
from dsi_ray.models.kv.paged import PagedCache


class PackedJob(NamedTuple):
    """One session's part of a forward.

    Attributes:
        new: The tokens to compute.
        wanted: For how many of the last ones logits are wanted.
        segment: Where they belong.
    """

    new: tuple[int, ...]
    wanted: int
    segment: Segment


class PackedStep(NamedTuple):
    """All that a forward takes; made of numbers, so that it can be sent.

    Attributes:
        jobs: At least one, each with something to compute.
        recycled: Blocks whose old content goes first.
        room: Number of blocks for which there must be memory.
    """

    jobs: tuple[PackedJob, ...]
    recycled: tuple[int, ...]
    room: int

    @classmethod
    def of(cls, jobs: Sequence[PackedJob], pool: BlockPool) -> "PackedStep":
        """A forward over blocks of ``pool``."""
        return cls(tuple(jobs), tuple(pool.recycled), pool.size)


class PackedModel:
    """A model and its memory for keys and values."""

    def __init__(self, model: Any) -> None:
        """Takes a causal model, in eval mode, and switches its attention.

        Raises:
            ModelError: It has another kind of attention than sdpa or eager.
        """
        use_packed_attention(model)
        self._model = model
        embeddings = model.get_input_embeddings().weight
        self.device: torch.device = embeddings.device
        """Where its tokens go in."""
        self.devices: list[torch.device] = list({w.device: None for w in model.parameters()})
        """Where its weights are."""
        head = model.get_output_embeddings()
        self._last_device = self.device if head is None else head.weight.device
        self._keeps_logits = "logits_to_keep" in signature(model.forward).parameters
        self._pools = PagedCache()
        self.known_ids: int = embeddings.shape[0]
        """Number of token ids that have an embedding."""
        self.max_context: int = max_context(model.config) or maxsize
        """Most tokens that it takes."""
        self.config: Any = model.config
        """What transformers knows of it."""

    @property
    def bytes_per_token(self) -> int:
        """What a token takes in the KV cache; known after the first forward."""
        return self._pools.bytes_per_token

    @property
    def layers(self) -> int:
        """Number of layers that have keys of their own; known after the first forward."""
        return sum(layer.is_initialized for layer in self._pools.layers)

    def block(self, index: int) -> list[Tensor]:
        """Keys and values of a block side by side, layer by layer: (heads, tokens, sizes).

        Of a layer that has none of its own nothing: (0,).
        """
        slots = slice(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS)
        return [
            layer.pool[:, slots] if layer.is_initialized else torch.empty(0)
            for layer in self._pools.layers
        ]

    @torch.inference_mode()
    def forward(self, step: PackedStep, stop: StopSignal) -> Tensor:
        """Computes what the segments lack.

        Args:
            step: What to compute.
            stop: Ends the forward at the next layer.

        Returns:
            The wanted rows of logits, job by job: (rows, vocabulary).

        Raises:
            ForwardCancelled: ``stop`` was set in time.
        """
        segments = [job.segment for job in step.jobs]
        packing = pack(segments, step.recycled, step.room, stop, self.device)
        ids: list[int] = []
        rows = [range(0)] * len(step.jobs)
        for index in packing.order:
            new, wanted, _ = step.jobs[index]
            ids += new
            rows[index] = range(len(ids) - wanted, len(ids))
        kept = [row for wanted_rows in rows for row in wanted_rows]
        keep = torch.tensor(kept, dtype=torch.long, device=self._last_device)
        with run(packing):
            output = self._model(
                input_ids=self._row(ids),
                position_ids=packing.positions,
                cache=self._pools,
                use_cache=True,
                **({"logits_to_keep": keep} if self._keeps_logits else {}),
            )
        logits: Tensor = output.logits[0]
        return logits if self._keeps_logits else logits[keep.to(logits.device)]

    @torch.inference_mode()
    def plain(self, path: tuple[int, ...], cache: Cache | None = None) -> Tensor:
        """Logits of a forward of transformers' own: (tokens, vocabulary).

        ``cache`` holds what comes before; None where that is nothing.
        """
        output = self._model(input_ids=self._row(path), cache=cache, use_cache=cache is not None)
        logits: Tensor = output.logits
        return logits[0]

    def _row(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([ids], dtype=torch.long, device=self.device)
