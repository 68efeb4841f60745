"""Rejection sampling, one position at a time: the target's law, and as many drafts as possible."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy
import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from statistics_of import misfit, product
from strategies_of import forwards, samplings

from dsi_ray.models.base import Forwarded, Sampling
from dsi_ray.models.hashing import path_keys
from dsi_ray.models.sampling import choose
from dsi_ray.models.sampling.rejection import MASS, MOST_IDS, Proposal
from dsi_ray.params import SamplingParams

TARGET = torch.tensor([1.0, 0.3, -0.4, 0.9, -1.3, 0.0, 1.4, -1.0], dtype=torch.float64)
DRAFTERS = {"identical": TARGET, "half right": TARGET + TARGET.roll(3), "hopeless": -3 * TARGET}
DRAWS = 8_000
PATH = tuple(7 * i % 8 for i in range(DRAWS))

LAWS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "truncated": {"top_k": 6, "top_p": 0.9, "min_p": 0.05},
    "edited": {"logit_bias": {4: 2}, "bad_token_ids": (1,)},
}


def sampled(**fields: Any) -> Sampling:
    """Parameters of a request whose drafts are verified by rejection sampling."""
    return Sampling(SamplingParams(**{"temperature": 1, **fields}), 1, seed=3, rejection=True)


def turn(drafter: torch.Tensor, sampling: Sampling) -> tuple[Forwarded, Forwarded]:
    """Drafts and verdicts at ``DRAWS`` positions, each after another path."""
    drafts = choose(drafter.expand(DRAWS, -1), PATH, sampling.for_drafters)
    verdicts = choose(TARGET.expand(DRAWS, -1), PATH, sampling, proposals=drafts.proposals)
    return drafts, verdicts


def law(logits: torch.Tensor, sampling: Sampling) -> dict[int, float]:
    """The probability of each token."""
    return oracle.law(logits, PATH[:1], sampling)


def agreement(drafts: Sequence[int], verdicts: Sequence[int]) -> float:
    """Share of the drafts that were accepted."""
    return sum(map(int.__eq__, drafts, verdicts)) / len(drafts)


@pytest.mark.parametrize("fields", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("drafter", DRAFTERS.values(), ids=DRAFTERS)
def test_drafts_and_verdicts_have_their_laws(drafter: torch.Tensor, fields: dict[str, Any]) -> None:
    sampling = sampled(**fields)
    drafts, verdicts = turn(drafter, sampling)
    p, proposed = law(TARGET, sampling), Proposal.unpack(drafts.proposals[0])
    q = dict.fromkeys(p, 0.0)
    q |= zip(proposed.ids.tolist(), proposed.weights / proposed.weights.sum(), strict=True)
    assert abs(misfit(verdicts.tokens, p)) < 4
    assert abs(misfit(drafts.tokens, q)) < 4
    assert sum(abs(q[i] - other) for i, other in law(drafter, sampling).items()) < 2.1 * (1 - MASS)
    overlap = sum(min(p[i], q[i]) for i in p)
    assert agreement(drafts.tokens, verdicts.tokens) == pytest.approx(overlap, abs=0.02)


def test_neighbours_are_independent() -> None:
    """A verdict knows nothing of the one before it, nor of that one's draft."""
    drafts, verdicts = turn(DRAFTERS["half right"], sampled())
    p = law(TARGET, sampled())
    pairs = [(a // 2, b // 2) for a, b in pairwise(verdicts.tokens)]
    halves = {i: p[2 * i] + p[2 * i + 1] for i in range(4)}
    assert abs(misfit(pairs, product(halves, halves))) < 4
    after = [b for a, b in zip(drafts.tokens, verdicts.tokens[1:], strict=False) if a == 6]
    assert abs(misfit(after, p)) < 4


def test_more_is_accepted_than_by_exact_matching() -> None:
    sampling = sampled()
    drafts, verdicts = turn(DRAFTERS["half right"], sampling)
    own = choose(TARGET.expand(DRAWS, -1), PATH, sampling)
    independent = sum(p * p for p in law(TARGET, sampling).values())
    exact = agreement(drafts.tokens, own.tokens)
    assert independent < exact < agreement(drafts.tokens, verdicts.tokens) - 0.02


@given(forward=forwards(), sampling=samplings(temperature=1.0), data=st.data())
def test_a_row_depends_on_its_own_draft_only(
    forward: tuple[torch.Tensor, tuple[int, ...]], sampling: Sampling, data: st.DataObject
) -> None:
    """In a block as alone; without a draft it is what the target draws by itself."""
    logits, path = forward
    asked = dataclasses.replace(sampling, rejection=True)
    drafts = choose(logits.flip(1), path, asked.for_drafters).proposals
    in_time = [draft if data.draw(st.booleans()) else b"" for draft in drafts]
    found = choose(logits, path, asked, proposals=in_time)
    plain = choose(logits, path, asked)
    for row, draft in enumerate(in_time):
        prefix = path[: len(path) + 1 - len(logits) + row]
        alone = choose(logits[row : row + 1], prefix, asked, proposals=[draft])
        assert alone.tokens == [found.tokens[row]]
        if not draft:
            assert found.tokens[row] == plain.tokens[row]


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, unique=True), st.data())
def test_bytes_are_the_whole_proposal(ids: list[int], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.floats(0, 1, width=32), min_size=len(ids), max_size=len(ids)))
    sent = Proposal(ids[-1], numpy.array(ids), numpy.array(weights, numpy.float32)).pack()
    found = Proposal.unpack(sent)
    assert (found.token, found.ids.tolist(), found.weights.tolist()) == (ids[-1], ids, weights)
    assert len(sent) == 4 + 8 * len(ids)


def test_a_flat_distribution_is_cut() -> None:
    drafts = choose(torch.zeros(3, 4 * MOST_IDS), (1, 2, 3), sampled().for_drafters)
    assert {len(proposal) for proposal in drafts.proposals} == {4 + 8 * MOST_IDS}


def test_a_sure_drafter_sends_one_id() -> None:
    """And a target that is as sure of another has nothing to accept."""
    sure = torch.eye(4, dtype=torch.float64) * 1e3
    (proposal,) = choose(sure[:1], (0,), sampled().for_drafters).proposals
    assert len(proposal) == 12
    assert choose(sure[:1], (0,), sampled(), proposals=[proposal]).tokens == [0]
    assert choose(sure[1:2], (0,), sampled(), proposals=[proposal]).tokens == [1]


@given(st.integers(-(2**63), 2**63 - 1), st.lists(st.integers(0, 9), min_size=1), st.data())
def test_keys_are_the_paths_own(seed: int, path: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(path)))
    alone = [path_keys(seed, path[:i], i)[0] for i in range(first, len(path) + 1)]
    assert path_keys(seed, path, first) == alone
    other = [path[0] + 1, *path[1:]]
    assert not set(path_keys(seed, other, 1)) & set(path_keys(seed, path, 1))
    assert not set(path_keys(seed ^ 1, path, 1)) & set(path_keys(seed, path, 1))
