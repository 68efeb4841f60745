"""Chat requests: what is accepted, and which field an error names."""

from typing import Any

import pytest
from pydantic import ValidationError

from dsi_ray.serving.schema.chat import ChatRequest

USER = {"role": "user", "content": "hello"}


def parse(**fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"model": "demo", "messages": [USER], **fields})


def problem(**fields: Any) -> tuple[str, int | str]:
    """Returns the kind and the field of the only problem."""
    with pytest.raises(ValidationError) as caught:
        parse(**fields)
    (error,) = caught.value.errors()
    return error["type"], error["loc"][0]


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_roles(role: str) -> None:
    (message,) = parse(messages=[{"role": role, "content": "x", "name": "me"}]).messages
    assert (message.role, message.text) == (role, "x")


def test_text_parts_are_lines() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert parse(messages=[{"role": "user", "content": parts}]).messages[0].text == "one\ntwo"


def test_an_answer_can_be_sent_back() -> None:
    """As `message.model_dump()` of the official client gives it."""
    answer = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert parse(messages=[USER, answer, USER]).messages[1].text == "hi"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 5}, 5),
    ],
)
def test_two_names_for_the_most_tokens(fields: dict[str, Any], wanted: int | None) -> None:
    assert parse(**fields).wanted_tokens == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_log_probabilities(fields: dict[str, Any], wanted: int | None) -> None:
    assert parse(**fields).wanted_logprobs == wanted


NEUTRAL = {
    "tools": [],
    "tool_choice": "none",
    "parallel_tool_calls": True,
    "functions": [],
    "function_call": "none",
    "modalities": ["text"],
    "response_format": {"type": "text"},
    "audio": None,
    "add_generation_prompt": True,
    "continue_final_message": False,
}


def test_neutral_values_are_accepted() -> None:
    expected = parse().params(5, {"temperature": 1.0})
    assert parse(**NEUTRAL).params(5, {"temperature": 1.0}) == expected
    assert (
        parse(**dict.fromkeys(set(ChatRequest.model_fields) - {"model", "messages"})).params(
            5, {"temperature": 1.0}
        )
        == expected
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "required"),
        ("functions", [{"name": "f"}]),
        ("function_call", {"name": "f"}),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "x", "format": "mp3"}),
        ("structured_outputs", {"choice": ["a"]}),
        ("reasoning_effort", "high"),
        ("web_search_options", {}),
        ("prediction", {"type": "content", "content": "x"}),
        ("chat_template", "{{ 1 }}"),
        ("echo", True),
    ],
)
def test_what_is_not_supported_is_refused(field: str, value: Any) -> None:
    assert problem(**{field: value}) == ("unsupported_parameter", field)


def test_calls_of_tools_in_messages_are_refused() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    assert problem(messages=[USER, call])[0] == "unsupported_parameter"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", []),
        ("messages", "hello"),
        ("messages", [{"role": "wizard", "content": "x"}]),
        ("messages", [{"role": "user"}]),
        ("messages", [{"role": "user", "content": None}]),
        ("messages", [{"role": "user", "content": []}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]),
        ("messages", [{"role": "user", "content": "\ud800"}]),
        ("messages", [{"role": "user", "content": "x", "colour": "red"}]),
        ("max_tokens", 0),
        ("max_completion_tokens", 0),
        ("logprobs", 3),
        ("top_logprobs", 3),
        ("chat_template_kwargs", []),
        ("no_such_field", 1),
    ],
)
def test_wrong_values_are_refused_by_name(field: str, value: Any) -> None:
    kind, where = problem(**{field: value})
    assert where == field
    assert kind != "unsupported_parameter"


def test_two_different_limits_contradict_each_other() -> None:
    assert problem(max_tokens=5, max_completion_tokens=6)[1] == "max_tokens"
    assert problem(logprobs=True, top_logprobs=21)[1] == "top_logprobs"
