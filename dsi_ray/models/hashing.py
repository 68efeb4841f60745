"""A good 64-bit mixer, and seeds made with it: the same numbers in every process and language."""

import secrets
from collections.abc import Sequence

from dsi_ray.core.path import Path

GOLDEN = 0x9E3779B97F4A7C15
"""Step of splitmix64: odd, and its multiples are spread evenly over 64 bits."""

MIX_SHIFTS = (30, 27, 31)
MIX_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Of the finaliser of splitmix64 (Steele et al., OOPSLA 2014)."""

_MASK = 2**64 - 1


def mix(state: int) -> int:
    """Returns 64 bits that look unrelated for any two different ``state`` (modulo 2**64)."""
    state &= _MASK
    state = ((state ^ (state >> MIX_SHIFTS[0])) * MIX_FACTORS[0]) & _MASK
    state = ((state ^ (state >> MIX_SHIFTS[1])) * MIX_FACTORS[1]) & _MASK
    return state ^ (state >> MIX_SHIFTS[2])


def position_key(seed: int, position: int) -> int:
    """Returns 64 bits for one position of one seed.

    The seed is mixed before the position is added: no seed's positions are another's, shifted.
    """
    return mix(mix(seed + GOLDEN) + (position + 1) * GOLDEN)


def path_keys(seed: int, path: Sequence[int], first: int) -> list[int]:
    """Returns 64 bits for each of the positions ``first .. len(path)`` of one seed.

    They depend on all tokens before the position: no path's keys tell anything of another's.
    """
    known = Path.of(path)
    return [position_key(seed, known.upto(i).digest) for i in range(first, len(known) + 1)]


def draw_seed() -> int:
    """Returns a fresh seed: 63 bits, so that any JSON or SQL integer can hold it."""
    return secrets.randbits(63)


def choice_seed(seed: int, index: int) -> int:
    """Returns the seed of the ``index``-th choice of one request; the first has the request's."""
    return seed if index == 0 else position_key(~seed, index) >> 1
