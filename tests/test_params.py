"""Sampling parameters: what is accepted, and that each error is one line that names the field."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from dsi_ray.config import describe
from dsi_ray.params import MAX_GUIDE, Guide, SamplingParams


def test_the_default_is_greedy() -> None:
    assert SamplingParams().is_greedy
    assert not SamplingParams(temperature=0.1).is_greedy


def test_a_bias_may_be_a_mapping_and_its_order_does_not_matter() -> None:
    one = SamplingParams(logit_bias={7: 1, 2: -3.5})
    assert one.logit_bias == ((2, -3.5), (7, 1.0))
    assert one == SamplingParams(logit_bias={2: -3.5, 7: 1}) == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(pickle.loads(pickle.dumps(one)))


def test_top_k_of_minus_one_is_off() -> None:
    assert SamplingParams(top_k=-1) == SamplingParams(top_k=0) == SamplingParams()


BOUNDS: dict[str, list[Any]] = {
    "temperature": [0, 2],
    "top_p": [0, 1e-9, 1],
    "stop": ["x", ["x", "y" * 256], ()],
    "top_k": [-1, 0, 10**6],
    "min_p": [0, 1],
    "repetition_penalty": [0.01, 10],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [-2, 2],
    "logit_bias": [{}, {0: -100, 5: 100}, dict.fromkeys(range(1024), 1)],
    "bad_token_ids": [(), (0, 5)],
    "allowed_token_ids": [None, (0,)],
    "seed": [None, -(2**63), 2**63 - 1],
    "logprobs": [None, 0, 20],
    "min_tokens": [0, 128],
}


@pytest.mark.parametrize("field", BOUNDS)
def test_bounds_are_accepted(field: str) -> None:
    for value in BOUNDS[field]:
        SamplingParams(**{field: value})


NAN = float("nan")
WRONG: dict[str, list[Any]] = {
    "temperature": [-0.1, 2.1, NAN, float("inf"), "hot"],
    "top_p": [-0.1, 1.1, NAN],
    "stop": ["", "y" * 257, "\ud800", ["x"] * 5, b"x", [1], 7],
    "top_k": [-2, 1.5],
    "min_p": [-0.1, 1.1, NAN],
    "repetition_penalty": [0, -1, 10.1, NAN],
    "presence_penalty": [-2.1, 2.1, NAN],
    "frequency_penalty": [-2.1, 2.1, NAN],
    "logit_bias": [{1: 101}, {-1: 1}, {"a": 1}, {1: NAN}, dict.fromkeys(range(1025), 1), 5],
    "bad_token_ids": [(-1,), tuple(range(4097)), 5],
    "allowed_token_ids": [(), (-1,), tuple(range(4097))],
    "stop_token_ids": [(-1,), tuple(range(4097))],
    "seed": [2**63, -(2**63) - 1, 1.5],
    "logprobs": [-1, 21],
    "min_tokens": [-1],
    "max_tokens": [0],
    "no_such_parameter": [1],
}


@pytest.mark.parametrize("field", WRONG)
def test_wrong_values_are_one_line_that_names_the_field(field: str) -> None:
    for value in WRONG[field]:
        with pytest.raises(ValidationError) as caught:
            SamplingParams(**{field: value})
        message = describe(caught.value)
        assert message.startswith(field) and "\n" not in message


def test_fields_that_contradict_each_other() -> None:
    with pytest.raises(ValidationError) as caught:
        SamplingParams(max_tokens=3, min_tokens=4)
    assert describe(caught.value) == "min_tokens must not be larger than max_tokens"
    with pytest.raises(ValidationError, match="each token id once"):
        SamplingParams(logit_bias=((1, 2.0), (1, 3.0)))


def test_a_guide_can_be_hashed_and_pickled() -> None:
    params = SamplingParams(guide=Guide("choice", choices=("a", "b")))
    again = pickle.loads(pickle.dumps(params))
    assert again == params and hash(again.guide) == hash(params.guide)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "regex"},
        {"kind": "regex", "text": "a", "choices": ("a",)},
        {"kind": "choice", "text": "a"},
        {"kind": "choice", "choices": ("",)},
        {"kind": "choice", "choices": ("a" * MAX_GUIDE, "b")},
        {"kind": "regex", "text": "a" * (MAX_GUIDE + 1)},
        {"kind": "grammar", "text": "a"},
    ],
)
def test_guides_that_are_none(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Guide(**fields)
