"""Completion requests: what is accepted, and which field an error names."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from dsi_ray.params import RECOMMENDED, Guide, SamplingParams
from dsi_ray.runtime.errors import RequestError
from dsi_ray.serving.schema.completions import CompletionRequest


def parse(**fields: Any) -> CompletionRequest:
    return CompletionRequest.model_validate({"model": "demo", "prompt": "x", **fields})


def params(**fields: Any) -> SamplingParams:
    request = parse(**fields)
    return request.params(request.wanted_tokens, {"temperature": 1.0})


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


def test_defaults_are_openais() -> None:
    assert params() == SamplingParams(max_tokens=16, temperature=1)


ADVICE: dict[str, float] = {
    "temperature": 0.6,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
}


@pytest.mark.parametrize("name", RECOMMENDED)
def test_a_checkpoints_advice_counts_where_a_request_says_nothing(name: str) -> None:
    neutral = {"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}
    expected = SamplingParams(max_tokens=5, **ADVICE)
    assert parse().params(5, ADVICE) == parse(**{name: None}).params(5, ADVICE) == expected
    said = parse(**{name: neutral[name]}).params(5, ADVICE)
    assert said == replace(expected, **{name: neutral[name]})


def test_parameters() -> None:
    fields: dict[str, Any] = {
        "max_tokens": 5,
        "min_tokens": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -1,
        "bad_token_ids": [1],
        "allowed_token_ids": [2, 3],
        "seed": 7,
        "logprobs": 3,
        "stop": ["\n"],
        "stop_token_ids": [3],
        "ignore_eos": True,
        "skip_special_tokens": False,
    }
    expected = {key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
    assert params(**fields, logit_bias={"5": 1}) == SamplingParams(
        **expected, logit_bias=((5, 1.0),)
    )


def test_one_stop_string_needs_no_list() -> None:
    assert params(stop="\n").stop == ("\n",)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [({"top_k": -1}, "top_k", 0), ({"logprobs": 0}, "logprobs", 0), ({}, "logprobs", None)],
)
def test_ways_to_say_off(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(params(**fields), name) == value


def test_top_p_of_zero_keeps_only_the_likeliest() -> None:
    assert 0 < params(top_p=0).top_p < 1e-300


def test_null_is_the_default() -> None:
    fields = dict.fromkeys(set(CompletionRequest.model_fields) - {"model", "prompt"})
    assert params(**fields) == params()


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
    "top_k": 0,
    "min_p": 0.0,
    "min_tokens": 0,
    "skip_special_tokens": True,
    "return_token_ids": False,
    "response_format": {"type": "text"},
    "use_beam_search": False,
    "priority": 0,
    "user": "someone",
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "auto",
}


def test_neutral_values_are_accepted() -> None:
    assert params(**NEUTRAL) == params()


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
NAMED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}


@pytest.mark.parametrize(
    ("field", "value", "guide"),
    [
        ("response_format", {"type": "json_object"}, Guide.json_object()),
        ("response_format", NAMED, Guide("json_schema", json.dumps(SCHEMA))),
        ("guided_json", SCHEMA, Guide("json_schema", json.dumps(SCHEMA))),
        ("guided_json", "{}", Guide("json_schema", "{}")),
        ("guided_regex", "a|b", Guide("regex", "a|b")),
        ("guided_choice", ["a", "b"], Guide("choice", choices=("a", "b"))),
    ],
)
def test_what_shapes_a_text(field: str, value: Any, guide: Guide) -> None:
    request = parse(**{field: value})
    assert (request.guide, request.guide_field) == (guide, field)
    assert params(**{field: value}) == replace(params(), guide=guide)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {"type": "xml"}),
        ("response_format", {"type": "json_schema"}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x"}}),
        ("response_format", {"type": "json_object", "schema": {}}),
        ("guided_json", []),
        ("guided_regex", ""),
        ("guided_choice", []),
        ("guided_choice", "a"),
    ],
)
def test_wrong_shapes_are_named(field: str, value: Any) -> None:
    assert problem(**{field: value})[1][0] == field


def test_only_one_shape_at_a_time() -> None:
    both: dict[str, Any] = {"response_format": {"type": "json_object"}, "guided_regex": "a"}
    assert problem(**both)[1] == ("guided_regex",)
    assert parse(**both | {"response_format": {"type": "text"}}).guide is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [("guided_regex", "a" * 20_000), ("guided_choice", ["a" * 20_000]), ("guided_choice", [""])],
)
def test_shapes_are_bounded(field: str, value: Any) -> None:
    with pytest.raises(RequestError) as caught:
        params(**{field: value})
    assert caught.value.param == field


UNSUPPORTED = {
    "best_of": 3,
    "suffix": "end",
    "add_special_tokens": False,
    "guided_grammar": "start: x",
    "prompt_logprobs": 1,
    "truncate_prompt_tokens": 5,
    "use_beam_search": True,
    "include_stop_str_in_output": True,
    "priority": False,
}


@pytest.mark.parametrize(("field", "value"), UNSUPPORTED.items())
def test_what_is_not_supported_is_refused(field: str, value: Any) -> None:
    assert problem(**{field: value}) == ("unsupported_parameter", (field,))


def test_logprobs_of_the_prompt_are_refused() -> None:
    assert problem(echo=True, logprobs=1) == ("unsupported_parameter", ("logprobs",))


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
        ("prompt", "\ud800"),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", "16"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("temperature", -1),
        ("temperature", 3),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("top_p", 1.1),
        ("top_p", float("inf")),
        ("top_k", -2),
        ("min_p", 2),
        ("repetition_penalty", 0),
        ("presence_penalty", 3),
        ("n", 0),
        ("n", 17),
        ("n", 2.0),
        ("logprobs", 6),
        ("logprobs", True),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"01": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {str(i): 1 for i in range(1025)}),
        ("logit_bias", [1]),
        ("allowed_token_ids", []),
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
        ("stop_token_ids", [1] * 4097),
        ("min_tokens", -1),
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


def test_prompts_times_n_are_bounded() -> None:
    assert parse(prompt=["x"] * 64, n=2).choices == 2
    assert problem(prompt=["x"] * 65, n=2)[1] == ("prompt",)


def test_echo_alone_needs_no_token() -> None:
    assert parse(echo=True, max_tokens=0).wanted_tokens == 0


def test_best_of_may_equal_n() -> None:
    assert parse(n=3, best_of=3).choices == 3


def test_min_tokens_beyond_max_tokens() -> None:
    with pytest.raises(RequestError) as caught:
        params(min_tokens=6, max_tokens=5)
    assert caught.value.param == "min_tokens"


def test_each_choice_has_a_seed_of_its_own() -> None:
    request = parse(n=16, seed=-5)
    seeds = [request.seed_of(index) for index in range(16)]
    assert seeds[0] == -5
    assert len(set(seeds)) == 16
    # Each of them can be asked for by itself.
    assert all(parse(seed=seed) for seed in seeds)
    assert parse(n=16).seed_of(3) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include_usage": True}, (True, False)),
        ({"include_usage": True, "continuous_usage_stats": True}, (True, True)),
        ({}, (False, False)),
        (None, (False, False)),
    ],
)
def test_usage_in_streams(options: Any, expected: tuple[bool, bool]) -> None:
    request = parse(stream=True, stream_options=options)
    assert (request.include_usage, request.continuous_usage) == expected
