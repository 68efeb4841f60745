"""What a model says behind a text so long that every limit of its attention is passed.

Nobody computes that text: its keys and values are those of two blocks, repeated. Which of them a
token sees, and how it weighs them, depends on the windows, chunks and scales that are on trial.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from dsi_ray.models.forward.packed_model import PackedJob, PackedModel, PackedStep
from dsi_ray.models.kv.blocks import BLOCK_TOKENS
from dsi_ray.models.kv.kv_cache import Segment

_LIMITS = re.compile("window|chunk|floor|original_max")
"""Settings that hold a number of tokens beyond which attention changes."""

_LEAST_LENGTH, _MOST_LENGTH = 64, 2**15
"""Of the text. A layer's keys and values for as many tokens are in memory at a time."""

_NEW = 3
_OLD, _RECENT, _NEXT, _OTHER = range(4)
"""Blocks: the older and the newer half of the text, what follows it, and another session's."""


def far_trial(model: PackedModel, text: int) -> tuple[Tensor, Tensor]:
    """Returns expected and found logits behind a long text, in a batch with a short one.

    Args:
        model: Its memory must be nobody else's.
        text: Which tokens.
    """
    blocks = far_length(model) // BLOCK_TOKENS
    new, other = _tokens(model, text, _NEW), _tokens(model, text + 1, 2)
    halves = (blocks - blocks // 2, blocks // 2)
    for block in (_OLD, _RECENT):
        own = _tokens(model, text + 2 + block, BLOCK_TOKENS)
        _forward(model, PackedJob(own, 1, _segment(0, BLOCK_TOKENS, [block])))
    places = [*[_OLD] * halves[0], *[_RECENT] * halves[1], _NEXT]
    length = blocks * BLOCK_TOKENS
    found = _forward(
        model,
        PackedJob(new, _NEW, _segment(length, length + _NEW, places)),
        PackedJob(other, 1, _segment(0, len(other), [_OTHER])),
    )
    memory = Cache(
        layers=[
            _Repeated(old, recent, halves)
            for old, recent in zip(model.block(_OLD), model.block(_RECENT), strict=True)
        ]
    )
    return torch.cat([model.plain(new, memory), model.plain(other)[-1:]]), found


def _segment(kept: int, length: int, blocks: list[int]) -> Segment:
    return Segment(kept, 0, length, numpy.array(blocks, numpy.int64), neighbours=len(blocks) == 1)


def far_length(model: PackedModel) -> int:
    """Returns how long the text is: twice the largest limit that the configuration names.

    It is whole blocks; 0 where the model's context holds no two of them.
    """
    limits = _limits(model.config.get_text_config(decoder=True).to_dict())
    wanted = max([_LEAST_LENGTH, *(2 * int(limit) for limit in limits)])
    blocks = min(wanted, model.max_context - _NEW, _MOST_LENGTH) // BLOCK_TOKENS
    return blocks * BLOCK_TOKENS if blocks >= 2 else 0


def _limits(settings: Mapping[str, Any]) -> Iterator[float]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _limits(value)
        elif _LIMITS.search(str(name)) and isinstance(value, int | float):
            yield value


def _tokens(model: PackedModel, text: int, count: int) -> tuple[int, ...]:
    return tuple((1 + 5 * text + 3 * index) % model.known_ids for index in range(count))


def _forward(model: PackedModel, *jobs: PackedJob) -> Tensor:
    return model.forward(PackedStep(jobs, (), room=_OTHER + 1), threading.Event())


class _Repeated(CacheLayerMixin):  # type: ignore[misc]
    """A layer of transformers' own forward that remembers two blocks, again and again."""

    is_sliding = False  # it keeps all, as transformers' attention masks can tell

    def __init__(self, old: Tensor, recent: Tensor, times: tuple[int, int]) -> None:
        super().__init__()
        self._blocks = old, recent
        self._times = times

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Returns what it remembers, and the new tokens after it."""
        parts = zip(self._blocks, self._times, strict=True)
        past = torch.cat([block.repeat(1, times, 1) for block, times in parts], 1)[None]
        size = key_states.shape[-1]
        keys, values = past[..., :size], past[..., size:]
        return torch.cat([keys, key_states], -2), torch.cat([values, value_states], -2)

    def get_seq_length(self) -> int:
        """Number of tokens before the new ones."""
        return sum(self._times) * BLOCK_TOKENS

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Number of keys, and the position of the first."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """No maximum."""
        return -1
