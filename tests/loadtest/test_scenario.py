"""Scenarios and prompts."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest.errors import LoadTestError
from loadtest.load import Poisson
from loadtest.prompts import File, Prompts, ShareGpt, Shipped, Words, draw
from loadtest.request import requests
from loadtest.scenario import Scenario, override, parse, read, shipped

SMALLEST: dict[str, Any] = {
    "load": {"kind": "poisson", "rate": 2, "requests": 1},
    "prompts": {"kind": "shipped"},
}


def few(prompts: Prompts, count: int, seed: int = 0) -> list[str]:
    return list(islice(draw(prompts, np.random.default_rng(seed)), count))


@pytest.mark.parametrize("name", shipped())
def test_shipped_scenarios_can_be_run(name: str) -> None:
    scenario = parse(read(name))
    assert scenario.description
    for point in scenario.points().values():
        assert next(requests(point, "", np.random.default_rng(0))).body


def test_a_sweep_is_a_scenario_for_each_value() -> None:
    sweep = {"parameter": "load.rate", "values": [1, 0.5]}
    points = parse({**SMALLEST, "sweep": sweep}).points()
    assert list(points) == ["rate 1", "rate 0.5"]
    rates = [point.load.rate for point in points.values() if isinstance(point.load, Poisson)]
    assert rates == [1, 0.5]


def test_a_sweep_reaches_into_the_requests() -> None:
    sweep = {"parameter": "extra_body.dsi.algorithm", "values": ["si", "dsi"]}
    points = parse({**SMALLEST, "sweep": sweep}).points()
    assert [point.extra_body for point in points.values()] == [
        {"dsi": {"algorithm": "si"}},
        {"dsi": {"algorithm": "dsi"}},
    ]


def test_override_changes_a_copy() -> None:
    data = {"load": {"rate": 1}}
    assert override(data, {"load.rate": 2, "a.b": 3}) == {"load": {"rate": 2}, "a": {"b": 3}}
    assert data == {"load": {"rate": 1}}


@pytest.mark.parametrize(
    "change",
    [
        {"load.rate": 0},
        {"load.kind": "closed"},
        {"load.requests": None},
        {"load.kind": "ramp"},
        {"max_tokens": {"min": 5, "max": 4}},
        {"prompts.kind": "file"},
        {"unknown": 1},
        {"seed.deep": 1},
        {"sweep": {"parameter": "load.rate", "values": [0]}},
    ],
)
def test_wrong_scenarios_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(LoadTestError):
        parse(override({**SMALLEST, "seed": 0}, change)).points()


def test_shipped_prompts_come_in_a_seeded_order_all_before_one_comes_again() -> None:
    once = few(Shipped(kind="shipped", name="code"), 32)
    assert sorted(once[:16]) == sorted(set(once)) == sorted(once[16:])
    assert once == few(Shipped(kind="shipped", name="code"), 32)
    assert once != few(Shipped(kind="shipped", name="code"), 32, seed=1)


def test_words_and_shared_prefixes() -> None:
    words = Words(kind="words", words=10, shared_prefix_words=20, shared_prefixes=2)
    halves = [prompt.split("\n\n") for prompt in few(words, 40)]
    assert {len(prefix.split()) for prefix, _ in halves} == {20}
    assert {len(rest.split()) for _, rest in halves} == {10}
    assert len({prefix for prefix, _ in halves}) == 2
    assert len({rest for _, rest in halves}) == 40


def test_files_of_prompts(tmp_path: Path) -> None:
    lines = tmp_path / "prompts.txt"
    lines.write_text("one\n\ntwo\n")
    assert sorted(few(File(kind="file", path=lines), 2)) == ["one", "two"]
    chats = tmp_path / "sharegpt.json"
    turns = [
        [{"from": "human", "value": "first"}, {"from": "gpt", "value": "answer"}],
        [{"from": "gpt", "value": "nobody asked"}],
        [{"from": "human", "value": "much too long"}],
        [],
    ]
    chats.write_text(json.dumps([{"conversations": each} for each in turns]))
    assert few(ShareGpt(kind="sharegpt", path=chats, max_chars=9), 2) == ["first", "first"]


@pytest.mark.parametrize("text", [None, "", "[1]", "{", "\n"])
def test_files_without_prompts(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "prompts.json"
    if text is not None:
        file.write_text(text)
    for prompts in (File(kind="file", path=file), ShareGpt(kind="sharegpt", path=file)):
        with pytest.raises(LoadTestError):
            few(prompts, 1)


def test_lengths_are_drawn_between_their_bounds() -> None:
    scenario = Scenario.model_validate({**SMALLEST, "max_tokens": {"min": 2, "max": 4}})
    asked = islice(requests(scenario, "", np.random.default_rng(0)), 60)
    assert {request.body["max_tokens"] for request in asked} == {2, 3, 4}
