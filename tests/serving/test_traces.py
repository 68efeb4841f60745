"""``GET /v1/traces/{request_id}``, the request extension ``dsi`` and the page's files."""

import json

import httpx
import openai
import pytest
from pydantic import TypeAdapter

from dsi_ray.experiments.bench.prompts import held_out_code
from dsi_ray.runtime.trace.chrome import ChromeTrace

PROMPTS = held_out_code(2)
SCHEMA = TypeAdapter(ChromeTrace)


def completion(client: openai.OpenAI, algorithm: str, **more: object) -> openai.types.Completion:
    body = {"ignore_eos": True, "dsi": {"algorithm": algorithm}}
    arguments = {"prompt": PROMPTS[0], "max_tokens": 40, "temperature": 0, **more}
    return client.completions.create(model="demo", extra_body=body, **arguments)


def trace(http: httpx.Client, name: str) -> ChromeTrace:
    answer = http.get(f"/v1/traces/{name}").raise_for_status()
    assert answer.headers["content-type"] == "application/json"
    return SCHEMA.validate_json(answer.content)


@pytest.mark.parametrize("algorithm", ["dsi", "si", "non-si"])
def test_shows_how_a_completion_came_about(
    client: openai.OpenAI, http: httpx.Client, algorithm: str
) -> None:
    answer = completion(client, algorithm)
    file = trace(http, answer.id)
    (request,) = file["otherData"]["requests"]
    assert (request["algorithm"], request["over"], request["omitted"]) == (algorithm, True, 0)
    assert request["stats"] is not None
    assert request["stats"]["completion_tokens"] == 40
    names = {e["tid"]: e["args"]["name"] for e in file["traceEvents"] if e["name"] == "thread_name"}
    drafters = [] if algorithm == "non-si" else ["drafter-0"]
    assert list(names.values()) == [*drafters, "target-0", "commits"]
    spans = [event for event in file["traceEvents"] if event["ph"] == "X"]
    assert {names[span["tid"]] for span in spans} == {*drafters, "target-0"}
    assert all(0 <= s["ts"] and s["ts"] + s["dur"] <= request["ms"] * 1e3 + 1 for s in spans)
    commits = [event["args"] for event in file["traceEvents"] if event["ph"] == "i"]
    assert sum(commit["tokens"] for commit in commits) == commits[-1]["total"] == 40


def test_all_algorithms_give_the_same_text(client: openai.OpenAI) -> None:
    texts = {completion(client, name).choices[0].text for name in ("dsi", "si", "non-si")}
    assert len(texts) == 1


def test_every_prompt_of_a_completion_is_a_process(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    file = trace(http, completion(client, "dsi", prompt=PROMPTS).id)
    assert [request["pid"] for request in file["otherData"]["requests"]] == [1, 2]
    assert {event["pid"] for event in file["traceEvents"]} == {1, 2}


def test_a_stream_can_be_watched_while_it_runs(client: openai.OpenAI, http: httpx.Client) -> None:
    with completion(client, "dsi", max_tokens=900, stream=True) as chunks:
        first = next(chunks)
        (request,) = trace(http, first.id)["otherData"]["requests"]
        assert not request["over"]


def test_unknown_request(http: httpx.Client) -> None:
    answer = http.get("/v1/traces/cmpl-unknown")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "trace_not_found")


@pytest.mark.parametrize("options", [{"algorithm": "fast"}, {"lookahead": 0}, {"speed": 1}, "dsi"])
def test_wrong_options_are_refused(http: httpx.Client, options: object) -> None:
    body = {"model": "demo", "prompt": "x", "max_tokens": 1, "dsi": options}
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "dsi"


def test_openapi_describes_both(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert "/v1/traces/{request_id}" in document["paths"]
    assert "TraceEvent" in document["components"]["schemas"]
    options = document["components"]["schemas"]["DsiOptions"]["properties"]
    assert "non-si" in json.dumps(options["algorithm"])


def test_page_lets_nothing_else_in(http: httpx.Client) -> None:
    answer = http.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert http.head("/static/page.js").headers["content-type"].startswith("text/javascript")
    assert http.get("/static/nothing.js").status_code == 404
