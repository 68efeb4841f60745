"""What a request's parameters mean to its models."""

import dataclasses
import pickle

from dsi_ray.models.base import ModelInfo, Sampling
from dsi_ray.params import SamplingParams

TARGET = ModelInfo("target", 100, 512, (7, 8), 1, "float32", "cpu")


def of(**fields: object) -> Sampling:
    """The sampling of a request with a prompt of three tokens."""
    return Sampling.of(SamplingParams(**fields), 3, TARGET)


def test_the_target_says_what_there_is_to_choose_and_what_ends() -> None:
    found = of(stop_token_ids=(5,))
    assert (found.prompt_tokens, found.vocab_size) == (3, 100)
    assert found.end_ids == {5, 7, 8}
    assert of(stop_token_ids=(5,), ignore_eos=True).end_ids == {5, 7, 8}


def test_a_seed_is_kept_and_a_missing_one_drawn() -> None:
    assert of(temperature=1, seed=-9).seed_in_use == -9
    drawn = {of(temperature=1).seed_in_use for _ in range(20)}
    assert len(drawn) == 20
    assert all(seed is not None and 0 <= seed < 2**63 for seed in drawn)


def test_greedy_decoding_has_no_seed() -> None:
    assert of().seed_in_use is None
    assert of(seed=4).seed_in_use is None


def test_it_is_small_on_the_wire() -> None:
    """It travels with every task."""
    assert len(pickle.dumps(of(temperature=1, seed=2**62))) < 700


def test_drafters_differ_in_nothing_but_logprobs() -> None:
    asked = of(temperature=1, logprobs=5, logit_bias={3: 1})
    params = dataclasses.replace(asked.params, logprobs=None)
    assert asked.for_drafters == dataclasses.replace(asked, params=params)


def test_rejection_is_for_sampling_only() -> None:
    greedy, hot = (
        Sampling.of(SamplingParams(temperature=t, seed=4), 3, TARGET, rejection=True)
        for t in (0, 1)
    )
    assert greedy == of(seed=4)
    assert (hot.rejection, hot.drafts, hot.seed_in_use) == (True, False, None)
    assert hot.for_drafters == dataclasses.replace(hot, drafts=True)
