"""Which requests are let in; no engine is needed to find out."""

import dataclasses
from typing import Any

import pytest

from dsi_ray.models.base import ModelInfo
from dsi_ray.params import Guide, SamplingParams
from dsi_ray.runtime.client.request_check import check_request
from dsi_ray.runtime.errors import RequestError

TARGET = ModelInfo("target", 10, 64, (0,), 1, "float32", "cpu")
SIMULATED = dataclasses.replace(TARGET, name="simulated", has_logits=False)


def refusal(target: ModelInfo = TARGET, **fields: Any) -> RequestError:
    """Why a request is refused."""
    with pytest.raises(RequestError) as caught:
        check_request([1, 2], SamplingParams(max_tokens=8, **fields), target, 64)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("field", ["bad_token_ids", "allowed_token_ids", "stop_token_ids"])
def test_ids_must_be_in_the_vocabulary(field: str) -> None:
    error = refusal(**{field: (9, 10)})
    assert error.param == field
    assert "token id 10" in str(error)


def test_biased_ids_must_be_in_the_vocabulary() -> None:
    assert refusal(logit_bias={10: 1}).param == "logit_bias"


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("bad_token_ids", {"bad_token_ids": tuple(range(10))}),
        ("allowed_token_ids", {"allowed_token_ids": (3, 4), "bad_token_ids": (4, 3, 5)}),
        (
            "allowed_token_ids",
            {"allowed_token_ids": (0, 3), "stop_token_ids": (3,), "min_tokens": 1},
        ),
        ("allowed_token_ids", {"allowed_token_ids": (0,), "min_tokens": 1, "ignore_eos": True}),
    ],
)
def test_something_must_be_left_to_choose(param: str, fields: dict[str, Any]) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert "no token is left to choose" in str(error)


def test_one_token_to_choose_is_enough() -> None:
    for fields in (
        {"bad_token_ids": tuple(range(9))},
        {"allowed_token_ids": (0, 3), "min_tokens": 1},
        {"allowed_token_ids": (0,)},
    ):
        check_request([1], SamplingParams(max_tokens=8, **fields), TARGET, 64)


NEED_LOGITS: dict[str, Any] = {
    "temperature": 1,
    "min_tokens": 2,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "logit_bias": {3: 1},
    "bad_token_ids": (3,),
    "allowed_token_ids": (3,),
    "logprobs": 0,
}


@pytest.mark.parametrize("field", NEED_LOGITS)
def test_a_target_without_logits_refuses_what_needs_them(field: str) -> None:
    error = refusal(SIMULATED, **{field: NEED_LOGITS[field]})
    assert error.param == field
    assert "simulated" in str(error) and field in str(error)
    check_request([1], SamplingParams(max_tokens=8, **{field: NEED_LOGITS[field]}), TARGET, 64)


def test_what_has_no_effect_on_greedy_decoding_is_no_error() -> None:
    params = SamplingParams(max_tokens=8, top_p=0.5, top_k=3, min_p=0.1, seed=4, stop=("x",))
    check_request([1], params, SIMULATED, 64)


GUIDE = Guide("regex", "a")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("min_tokens", 1),
        ("ignore_eos", True),
        ("bad_token_ids", (1,)),
        ("allowed_token_ids", (1,)),
    ],
)
def test_a_guided_text_always_has_a_token_to_choose(field: str, value: Any) -> None:
    assert refusal(guide=GUIDE, **{field: value}).param == field


def test_a_guided_text_needs_an_end() -> None:
    endless = dataclasses.replace(TARGET, eos_ids=())
    assert refusal(endless, guide=GUIDE).param == "guide"


def test_a_guide_goes_with_everything_else() -> None:
    params = SamplingParams(guide=GUIDE, max_tokens=8, top_k=2, logit_bias={1: -100}, logprobs=2)
    check_request([1], params, TARGET, 64)
