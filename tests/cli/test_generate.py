"""``dsi-ray generate`` on a Ray of its own."""

import json
from pathlib import Path

from .conftest import SIMULATED, dsi_ray


def test_text_and_summary() -> None:
    result = dsi_ray("generate", "hello", *SIMULATED, "--max-tokens=8")
    assert result.returncode == 0
    assert result.stdout.count("⟨") == 8
    summary = result.stderr.splitlines()
    assert len(summary) == 1
    assert summary[0].startswith("8 tokens in ")


def test_json_of_a_prompt_from_stdin() -> None:
    arguments = ["generate", "-", *SIMULATED, "--max-tokens=8", "--json", "--algorithm=non-si"]
    result = dsi_ray(*arguments, stdin="hello")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    assert answer["text"] == "".join(f"⟨{token}⟩" for token in answer["tokens"])
    assert answer["finish_reason"] == "length"
    assert answer["stats"]["prompt_tokens"] == len("hello")
    assert answer["stats"]["completion_tokens"] == 8


def test_prompt_beyond_the_context_is_one_line() -> None:
    result = dsi_ray("generate", "-", stdin="word " * 5000)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_seed_repeats_a_sampled_text_with_every_algorithm() -> None:
    sampled = ["--temperature=1", "--top-p=0.95", "--top-k=50", "--max-tokens=12", "--json"]
    first = dsi_ray("generate", "def main(", *sampled)
    assert first.returncode == 0, first.stderr
    answer = json.loads(first.stdout)
    seed = answer["stats"]["seed"]
    again = dsi_ray("generate", "def main(", *sampled, f"--seed={seed}", "--algorithm=non-si")
    assert json.loads(again.stdout)["tokens"] == answer["tokens"]


def test_a_temperature_without_logits_is_one_line() -> None:
    result = dsi_ray("generate", "hello", *SIMULATED, "--temperature=1")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: the target (simulated) has no logits")
    assert result.stderr.count("\n") == 1


def test_trace_of_what_the_servers_did(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    result = dsi_ray("generate", "hello", *SIMULATED, "--max-tokens=8", f"--trace={file}")
    assert result.returncode == 0, result.stderr
    trace = json.loads(file.read_text())
    (request,) = trace["otherData"]["requests"]
    assert (request["algorithm"], request["over"]) == ("dsi", True)
    names = {event["args"].get("name") for event in trace["traceEvents"] if event["ph"] == "M"}
    assert {"drafter-0", "target-0", "commits"} <= names
    assert any(event["cat"] == "draft" for event in trace["traceEvents"] if event["ph"] == "X")


def test_a_trace_that_cannot_be_written_is_refused_before_the_work() -> None:
    result = dsi_ray("generate", "hello", *SIMULATED, "--trace=/nowhere/trace.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is no directory /nowhere" in result.stderr
