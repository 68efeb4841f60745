"""Noise: the bits that a reference without torch gives, and nothing that depends on anything."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from statistics_of import misfit

from dsi_ray.models.hashing import choice_seed, draw_seed, path_keys, position_key
from dsi_ray.models.sampling.noise import gumbel, random_bits, uniform

CPU = torch.device("cpu")
SEEDS = st.integers(-(2**63), 2**64 - 1)
POSITIONS = st.integers(0, 2**31)


def keys(seed: int, positions: range) -> list[int]:
    """Of some positions of a seed."""
    return [position_key(seed, position) for position in positions]


def reference_stream(state: int) -> tuple[int, int]:
    """The next state and output of splitmix64, as published (public domain, Vigna)."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return state, z ^ (z >> 31)


def reference_bits(seed: int, position: int, token: int) -> int:
    """The 64 bits of one token, without torch."""
    _, start = reference_stream(seed % 2**64)
    _, key = reference_stream((start + position * 0x9E3779B97F4A7C15) % 2**64)
    for _ in range(token + 1):
        key, bits = reference_stream(key)
    return bits


def test_the_reference_is_splitmix64() -> None:
    """The published first outputs for seed 1234567."""
    state, first = reference_stream(1234567)
    _, second = reference_stream(state)
    assert (first, second) == (6457827717110365317, 3203168211198807973)


@given(seed=SEEDS, position=POSITIONS, rows=st.integers(1, 4), vocab_size=st.integers(1, 20))
def test_bits_are_those_of_pure_python(
    seed: int, position: int, rows: int, vocab_size: int
) -> None:
    found = random_bits(keys(seed, range(position, position + rows)), vocab_size, CPU)
    expected = [
        [reference_bits(seed, position + row, token) for token in range(vocab_size)]
        for row in range(rows)
    ]
    assert (found.numpy().view("uint64") == expected).all()


@pytest.mark.gpu
def test_bits_and_noise_are_the_same_on_a_gpu() -> None:
    some, cuda = keys(-5, range(1000, 1050)), torch.device("cuda")
    assert (random_bits(some, 5000, cuda).cpu() == random_bits(some, 5000, CPU)).all()
    difference = gumbel(some, 5000, cuda).cpu() - gumbel(some, 5000, CPU)
    assert difference.abs().max() < 1e-14


@given(seed=SEEDS, position=POSITIONS, rows=st.integers(2, 9), vocab_size=st.integers(2, 3000))
def test_noise_depends_neither_on_the_block_nor_on_the_vocabulary(
    seed: int, position: int, rows: int, vocab_size: int
) -> None:
    every = keys(seed, range(position, position + rows))
    block = gumbel(every, vocab_size, CPU)
    assert (block == torch.cat([gumbel([key], vocab_size, CPU) for key in every])).all()
    part = vocab_size // 2 + 1
    assert (block[:, :part] == gumbel(every, part, CPU)).all()


def test_a_seed_with_a_sign_is_the_same_64_bits() -> None:
    assert keys(-1, range(3)) == keys(2**64 - 1, range(3))
    assert path_keys(-1, (4, 5), 1) == path_keys(2**64 - 1, (4, 5), 1)


def test_uniform_numbers_never_reach_the_bounds() -> None:
    extremes = torch.tensor([0, -1, 2**63 - 1, -(2**63)])
    found = uniform(extremes)
    assert found.dtype is torch.float64
    assert (found > 0).all() and (found < 1).all()
    assert found[0] == 2.0**-53 and found[1] == 1 - 2.0**-53
    noise = -(-found.log()).log()
    assert noise.isfinite().all()


SAMPLE = 400
"""Positions and ids: 160 000 numbers."""


def numbers(seed: int, first: int = 0, skip: int = 0) -> torch.Tensor:
    """Uniform numbers of ``SAMPLE`` positions and ids."""
    bits = random_bits(keys(seed, range(first, first + SAMPLE)), SAMPLE + skip, CPU)
    return uniform(bits)[:, skip:].flatten()


SHIFTS = {
    "position": (7, 1, 0),
    "seed": (8, 0, 0),
    "token": (7, 0, 1),
    "seed up, position down": (8, 1, 0),
    "position up, token down": (7, 1, 1),
    "sign of the seed": (-7, 0, 0),
    "high bit of the seed": (7 + 2**62, 0, 0),
    "a far position": (7, 2**20, 0),
}


def test_numbers_are_uniform() -> None:
    cells = (numbers(7) * 64).long().tolist()
    assert abs(misfit(cells, dict.fromkeys(range(64), 1 / 64))) < 4


@pytest.mark.parametrize("shift", SHIFTS)
def test_bug_16_correlated_rng(shift: str) -> None:
    """vLLM 47386, 54282: neighbours in any coordinate must not know of each other."""
    seed, first, skip = SHIFTS[shift]
    both = torch.stack([numbers(7), numbers(seed, first, skip)])
    pairs = map(tuple, (both * 12).long().T.tolist())
    law = {(a, b): 1 / 144 for a in range(12) for b in range(12)}
    assert abs(misfit(pairs, law)) < 4
    assert abs(torch.corrcoef(both)[0, 1]) < 4 / math.sqrt(both.shape[1])


def test_choices_of_one_request_have_seeds_of_their_own() -> None:
    seeds = [choice_seed(seed, index) for seed in range(-50, 50) for index in range(100)]
    assert len(set(seeds)) == len(seeds)
    assert choice_seed(41, 0) == 41
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)


def test_drawn_seeds_differ_and_fit_in_63_bits() -> None:
    seeds = {draw_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
