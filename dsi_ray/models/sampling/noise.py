"""Noise that is a pure function of a position's key and a token id.

The argmax of log probabilities plus independent Gumbel noise is distributed as the probabilities.
A target and a drafter that share the noise of a position agree on its token more often than two
that draw on their own (Daliri et al., arXiv 2408.07978), whoever runs where.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dsi_ray.models.hashing import GOLDEN, MIX_FACTORS, MIX_SHIFTS

_BITS = 52
"""Of the uniform numbers: so many that the midpoints between them are still exact in float64."""


def gumbel(keys: Sequence[int], vocab_size: int, device: torch.device) -> Tensor:
    """Returns noise of shape (keys, vocab_size) in float64.

    The uniform numbers behind it are the same bits everywhere, for they come from integers; the
    two logarithms may differ in their last bit between kinds of devices.
    """
    bits = random_bits(keys, vocab_size, device)
    return uniform(bits).log_().neg_().log_().neg_()


def uniform(bits: Tensor) -> Tensor:
    """Returns float64 numbers inside (0, 1), neither bound included, from int64 bits."""
    return (_shift_right(bits, 64 - _BITS).double() + 0.5) * 2.0**-_BITS


def random_bits(keys: Sequence[int], vocab_size: int, device: torch.device) -> Tensor:
    """Returns 64 random bits for each key and token id, as int64.

    The ids of a position are a stream of splitmix64 from the position's own key.
    """
    starts = torch.tensor([_signed(key) for key in keys], device=device)
    steps = torch.arange(1, vocab_size + 1, device=device) * _signed(GOLDEN)
    bits = starts[:, None] + steps
    for shift, factor in zip(MIX_SHIFTS, (*MIX_FACTORS, 1), strict=True):
        bits = (bits ^ _shift_right(bits, shift)).mul_(_signed(factor))
    return bits


def _shift_right(bits: Tensor, by: int) -> Tensor:
    """Shifts zeros in: torch's own shift repeats the sign."""
    return (bits >> by).bitwise_and_((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    """The same 64 bits as torch's int64 takes them; its sums and products wrap around."""
    return value - 2**64 if value >= 2**63 else value
