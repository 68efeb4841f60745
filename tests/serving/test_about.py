"""What the server tells about itself, and tokens without generation."""

import re
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import dsi_ray
from dsi_ray.runtime.client.engine import Engine

OWNERS = ("group", "ingress")
CHAT = [{"role": "user", "content": "hello"}]


def samples(http: httpx.Client) -> dict[tuple[str, str], float]:
    """All metrics, by name and values of labels; what says whose they are is left out."""
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (
            sample.name,
            ",".join(v for k, v in sample.labels.items() if k not in OWNERS),
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_version(http: httpx.Client) -> None:
    assert http.get("/version").json() == {"version": dsi_ray.__version__}


def test_model_card(http: httpx.Client, engine: Engine) -> None:
    card = http.get("/v1/models/demo").json()
    assert (card["id"], card["object"], card["root"]) == ("demo", "model", "demo")
    assert card["max_model_len"] == engine.max_model_len
    assert http.get("/v1/models").json()["data"] == [card]


def test_metrics_count_what_was_done(http: httpx.Client) -> None:
    before = samples(http)
    body = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 9, "n": 2, "ignore_eos": True}
    assert http.post("/v1/completions", json=body).status_code == 200
    assert http.post("/v1/completions", json={**body, "n": 0}).status_code == 400
    after = samples(http)

    def grown(name: str, labels: str = "") -> float:
        return after[name, labels] - before.get((name, labels), 0)

    assert grown("dsi_ray_http_requests_total", "/v1/completions,200") == 1
    assert grown("dsi_ray_http_requests_total", "/v1/completions,400") == 1
    assert grown("dsi_ray_http_request_seconds_count", "/v1/completions") == 2
    assert grown("dsi_ray_prompt_tokens_total") == 6
    assert grown("dsi_ray_completion_tokens_total") == 18
    assert grown("dsi_ray_time_to_first_token_seconds_count") == 2
    assert grown("dsi_ray_time_per_output_token_seconds_count") == 2
    assert grown("dsi_ray_committed_tokens_total") == 18
    assert grown("dsi_ray_drafted_tokens_total") >= grown("dsi_ray_accepted_tokens_total") >= 0
    assert after["dsi_ray_generations_in_flight", ""] == 0


def test_metrics_of_the_group_are_one_snapshot(http: httpx.Client) -> None:
    body = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 9, "ignore_eos": True}
    assert http.post("/v1/completions", json=body).status_code == 200
    now = samples(http)
    assert now["dsi_ray_group_up", ""] == now["dsi_ray_target_servers", ""] == 1
    assert now["dsi_ray_server_up", "target-0"] == 1
    assert now["dsi_ray_draft_runs_total", ""] == now["vllm:spec_decode_num_drafts_total", "0,demo"]
    judged = now["dsi_ray_accepted_tokens_total", ""] + now["dsi_ray_rejected_tokens_total", ""]
    assert judged <= now["dsi_ray_committed_tokens_total", ""]


def test_health_says_where_texts_end(http: httpx.Client) -> None:
    assert "Texts end at token 0." in http.get("/health").json()["texts"]


def test_health_leaves_metrics_out(http: httpx.Client) -> None:
    (group,) = http.get("/health").json()["groups"]
    assert group["targets"].items() >= {"configured": 1, "alive": 1, "busy": 0}.items()
    assert group["faults"] == []
    assert "metrics" not in group


def test_labels_do_not_grow_with_what_clients_ask(http: httpx.Client) -> None:
    for index in range(5):
        http.get(f"/v1/models/none-{index}")
        http.get(f"/nowhere/{index}")
        http.request(f"ODD{index}", "/v1/models")
    labels = {labels for name, labels in samples(http) if name == "dsi_ray_http_requests_total"}
    assert not any(re.search(r"none-|nowhere|ODD", label) for label in labels)
    assert "/v1/models/{name:path},404" in labels


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_documentation(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 200


def test_the_documentation_knows_every_error(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    answers = paths["/v1/chat/completions"]["post"]["responses"]
    assert answers.keys() == {
        "200", "400", "401", "404", "408", "413", "415", "429", "500", "503", "504", "default",
    }  # fmt: skip
    assert answers["200"]["content"].keys() == {"application/json", "text/event-stream"}
    assert all(
        "422" not in method["responses"] for path in paths.values() for method in path.values()
    )


def post(http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def test_tokens_and_back(http: httpx.Client, engine: Engine) -> None:
    text = "def f():  # é🙂"
    told = post(http, "/tokenize", {"model": "demo", "prompt": text, "return_token_strs": True})
    assert told["tokens"] == engine.tokenizer.encode(text)
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
    assert told["max_model_len"] == engine.max_model_len
    assert post(http, "/detokenize", {"tokens": told["tokens"]}) == {"prompt": text}
    assert post(http, "/detokenize", {"tokens": []}) == {"prompt": ""}


def test_tokens_of_a_conversation_are_those_of_a_chat(http: httpx.Client) -> None:
    told = post(http, "/tokenize", {"messages": CHAT})
    assert told["token_strs"] is None
    body = {"model": "demo", "messages": CHAT, "max_tokens": 1, "return_token_ids": True}
    assert told["tokens"] == post(http, "/v1/chat/completions", body)["prompt_token_ids"]
    text = post(http, "/detokenize", {"tokens": told["tokens"]})["prompt"]
    assert text == "<|user|>hello<|assistant|>"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"prompt": "x", "colour": 1}, "colour"),
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "x", "content": ""}]}, "messages"),
        ("/detokenize", {"tokens": [10**6]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
        ("/detokenize", {}, "tokens"),
        ("/tokenize", {"prompt": "x", "model": "other"}, "model"),
    ],
)
def test_wrong_tokens_are_refused(
    http: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == (404 if param == "model" else 400)
    assert answer.json()["error"]["param"] == param
