"""The Trace Event Format: what viewers need of a file."""

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import TypeAdapter

from dsi_ray.runtime.trace.chrome import ChromeTrace, chrome_trace
from tests.core.scenario import ALGORITHMS, Scenario
from tests.core.strategies import scenarios
from tests.runtime.traced import traced

SCHEMA = TypeAdapter(ChromeTrace)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(scenario=scenarios(min_drafters=1))
def test_every_trace_is_a_file_that_viewers_open(algorithm: str, scenario: Scenario) -> None:
    files: list[str] = []
    driver = traced(
        scenario, algorithm, check=lambda trace: files.append(json.dumps(chrome_trace([trace])))
    )
    driver()
    for text in (files[0], files[-1]):
        file: Any = SCHEMA.validate_json(text)
        named = {e["tid"] for e in file["traceEvents"] if e["name"] == "thread_name"}
        for event in file["traceEvents"]:
            if event["ph"] != "M":
                assert event["tid"] in named
                assert event["ts"] >= 0
            assert ("dur" in event) == (event["ph"] == "X")
            assert ("s" in event) == (event["ph"] == "i")
