"""The requests of a scenario."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadtest.prompts import draw
from loadtest.scenario import Between, Scenario

_PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        index: In order of sending.
        path: Where to.
        body: What to send, as JSON.
    """

    index: int
    path: str
    body: dict[str, Any]


def requests(scenario: Scenario, model: str, rng: np.random.Generator) -> Iterator[Request]:
    """Returns the scenario's requests, without end.

    Raises:
        LoadTestError: A file of prompts cannot be read.
    """
    path = _PATHS[scenario.endpoint]
    return (
        Request(index, path, _body(scenario, model, prompt, index, rng))
        for index, prompt in enumerate(draw(scenario.prompts, rng))
    )


def _body(
    scenario: Scenario, model: str, prompt: str, index: int, rng: np.random.Generator
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": _draw_length(scenario.max_tokens, rng),
        "temperature": scenario.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if scenario.endpoint == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if scenario.temperature:
        body["seed"] = scenario.seed + index
    if scenario.ignore_eos:
        body["ignore_eos"] = True
    return body | scenario.extra_body


def _draw_length(length: int | Between, rng: np.random.Generator) -> int:
    if isinstance(length, Between):
        return int(rng.integers(length.min, length.max, endpoint=True))
    return length
