"""``dsi-ray generate``, on a Ray of its own and on one that runs."""

import json
from pathlib import Path

from .conftest import SIMULATED, dsi_ray


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


def test_prompt_beyond_the_context_is_one_line(on_cluster: str, tmp_path: Path) -> None:
    (config := tmp_path / "config.yaml").write_text("max_model_len: 9")
    result = dsi_ray("generate", "0123456789", f"--config={config}", *SIMULATED, on_cluster)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_seed_repeats_a_sampled_text_with_every_algorithm(on_cluster: str) -> None:
    sampled = ["--temperature=1", "--top-p=0.95", "--top-k=50", "--max-tokens=12", "--json"]
    sampled += ["--sp-degree=1", on_cluster]
    first = dsi_ray("generate", "def main(", *sampled)
    assert first.returncode == 0, first.stderr
    answer = json.loads(first.stdout)
    seed = answer["stats"]["seed"]
    again = dsi_ray("generate", "def main(", *sampled, f"--seed={seed}", "--algorithm=non-si")
    assert json.loads(again.stdout)["tokens"] == answer["tokens"]


def test_a_temperature_without_logits_is_one_line(on_cluster: str) -> None:
    result = dsi_ray("generate", "hello", *SIMULATED, on_cluster, "--temperature=1")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: the target (simulated) has no logits")
    assert result.stderr.count("\n") == 1


def test_text_summary_and_trace(on_cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    arguments = [*SIMULATED, on_cluster, "--max-tokens=8", f"--trace={file}"]
    result = dsi_ray("generate", "hello", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("⟨") == 8
    (summary,) = result.stderr.splitlines()
    assert summary.startswith("8 tokens in ")
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
