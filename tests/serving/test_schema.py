"""Requests: what is accepted, and which field an error names."""

from typing import Any

import pytest
from pydantic import ValidationError

from dsi_ray.params import SamplingParams
from dsi_ray.serving.schema import CompletionRequest


def parse(**fields: Any) -> CompletionRequest:
    return CompletionRequest.model_validate({"model": "demo", "prompt": "x", **fields})


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("text", ["text"]),
        ("", [""]),
        (["a", "b"], ["a", "b"]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
    ],
)
def test_prompts(prompt: Any, prompts: list[Any]) -> None:
    assert parse(prompt=prompt).prompts == prompts


def test_defaults_are_greedy_and_sixteen_tokens() -> None:
    assert parse().params == SamplingParams(max_tokens=16)


def test_parameters() -> None:
    request = parse(
        max_tokens=5, temperature=0, stop="\n", seed=7, stop_token_ids=[3], ignore_eos=True
    )
    assert request.params == SamplingParams(
        max_tokens=5, stop=("\n",), seed=7, stop_token_ids=(3,), ignore_eos=True
    )


def test_null_is_the_default() -> None:
    fields = dict.fromkeys(set(CompletionRequest.model_fields) - {"model", "prompt"})
    assert parse(**fields).params == parse().params


NEUTRAL = {
    "n": 1,
    "best_of": 1,
    "echo": False,
    "logit_bias": {},
    "presence_penalty": 0.0,
    "frequency_penalty": 0,
    "repetition_penalty": 1.0,
    "suffix": "",
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "min_tokens": 0,
    "skip_special_tokens": True,
    "return_token_ids": False,
    "user": "someone",
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "auto",
}


def test_neutral_values_are_accepted() -> None:
    assert parse(**NEUTRAL).params == parse().params


UNSUPPORTED = {
    "n": 2,
    "best_of": 3,
    "echo": True,
    "logprobs": 0,
    "logit_bias": {"5": 1},
    "presence_penalty": 0.5,
    "frequency_penalty": -1,
    "repetition_penalty": 1.1,
    "suffix": "end",
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "min_tokens": 5,
    "skip_special_tokens": False,
    "return_token_ids": True,
    "temperature": 0.7,
}


@pytest.mark.parametrize(("field", "value"), UNSUPPORTED.items())
def test_what_is_not_supported_is_refused(field: str, value: Any) -> None:
    assert problem(**{field: value}) == ("unsupported_parameter", (field,))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", None),
        ("prompt", 7),
        ("prompt", []),
        ("prompt", [[]]),
        ("prompt", [1, "a"]),
        ("prompt", [-1]),
        ("prompt", [1.5]),
        ("prompt", [True]),
        ("prompt", ["x"] * 129),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", "16"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("temperature", -1),
        ("temperature", 3),
        ("temperature", "hot"),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", ["a"] * 5),
        ("stop", 3),
        ("stop", "x" * 257),
        ("seed", 1.5),
        ("seed", 2**63),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", "1"),
        ("ignore_eos", 1),
        ("model", 5),
        ("no_such_field", 1),
    ],
)
def test_wrong_values_are_refused_by_name(field: str, value: Any) -> None:
    kind, where = problem(**{field: value})
    assert where[0] == field
    assert kind != "unsupported_parameter"


def problem(**fields: Any) -> tuple[str, tuple[int | str, ...]]:
    """Returns the kind and the place of the only problem."""
    with pytest.raises(ValidationError) as caught:
        parse(**fields)
    (error,) = caught.value.errors()
    return error["type"], error["loc"]


def test_usage_in_streams() -> None:
    assert parse(stream=True, stream_options={"include_usage": True}).include_usage
    assert not parse(stream=True, stream_options={}).include_usage
    assert not parse(stream=True).include_usage
