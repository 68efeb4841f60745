"""What is wrong is found, and comes with what to do."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.models.checkpoints.footprint import Footprint
from dsi_ray.runtime.coordinator.placement import on_devices
from dsi_ray.runtime.doctor import machine
from dsi_ray.runtime.doctor.cluster import check_cluster, check_gpus, check_room
from dsi_ray.runtime.doctor.finding import Finding, FindingState
from dsi_ray.runtime.doctor.memory import check_fit, check_gpu_memory
from dsi_ray.runtime.doctor.models import check_models

from .conftest import EOS, random_model


def config(**settings: object) -> EngineConfig:
    return EngineConfig.model_validate(settings)


def check(found: Finding, state: FindingState, *mentions: str) -> None:
    assert found.state is state, found
    assert bool(found.action) == (state is not FindingState.OK)
    assert all(word in f"{found.check} {found.detail} {found.action}" for word in mentions), found


def test_this_machine_runs_it() -> None:
    check(machine.check_python(), FindingState.OK, "3.")
    found = [machine.check_disk(), machine.check_shared_memory(), machine.check_open_files()]
    assert FindingState.FAILED not in {one.state for one in found}


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check(machine.check_port("127.0.0.1", port), FindingState.FAILED, str(port), "--port")
    check(machine.check_port("127.0.0.1", port), FindingState.OK, "free")


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package that asks for what is there, and for what is not."""
    folder = tmp_path / "sample-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n"
        "Requires-Dist: numpy>=1\n"
        "Requires-Dist: typer>=99\n"
        "Requires-Dist: no-such-package\n"
        "Requires-Dist: other-system; sys_platform == 'none'\n"
        "Requires-Dist: an-extra; extra == 'more'\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return "sample"


def test_packages(distribution: str) -> None:
    typer, missing = machine.check_packages(distribution)
    check(typer, FindingState.FAILED, "pip install 'typer>=99'")
    check(missing, FindingState.FAILED, "not installed", "no-such-package")
    (unknown,) = machine.check_packages("not-a-distribution")
    check(unknown, FindingState.WARNING, "pip install")


@pytest.mark.parametrize("model", ["demo", "simulated:tpot_ms=3"])
def test_good_models(model: str) -> None:
    for found in check_models(config(target=model, drafters=["lookup"])):
        check(found, FindingState.OK)


def test_bad_models(tmp_path: Path) -> None:
    target, drafter = check_models(config(target="/no/such", drafters=[str(tmp_path)]))
    check(target, FindingState.FAILED, "/no/such", "correct the path")
    check(drafter, FindingState.FAILED, str(tmp_path), "give a model directory")


def test_a_drafter_with_other_tokens(model_folder: Path, tmp_path: Path) -> None:
    random_model(seed=1, layers=1).save_pretrained(tmp_path)
    words = (model_folder / "target" / "tokenizer.json").read_text()
    (tmp_path / "tokenizer.json").write_text(words.replace('"t5": 5', '"other": 5', 1))
    pair = config(target=str(model_folder / "target"), drafters=[str(tmp_path)])
    target, *_, drafter = check_models(pair)
    check(target, FindingState.OK)
    check(drafter, FindingState.FAILED, "token 5", "choose a drafter")


def test_where_texts_end_and_how_they_are_sampled(tmp_path: Path) -> None:
    random_model(seed=1, layers=1).save_pretrained(tmp_path)
    settings = {"target": str(tmp_path), "drafters": ["lookup"]}
    told = {one.check: one for one in check_models(config(**settings))}
    check(told["end of text"], FindingState.OK, f"{EOS}", "config.json", "generation_config.json")
    assert "sampling" not in told
    advice = '{"temperature": 0.6, "eos_token_id": [3]}'
    (tmp_path / "generation_config.json").write_text(advice)
    for option, says in (("auto", "is temperature 0.6"), ("none", "is not temperature 0.6")):
        told = {
            found.check: found
            for found in check_models(config(**settings, generation_config=option))
        }
        check(told["sampling"], FindingState.OK, says)
        check(told["end of text"], FindingState.OK, "3 (generation_config.json)")


def test_texts_that_never_end_are_worth_a_warning(tmp_path: Path) -> None:
    GPT2Config(vocab_size=8, n_layer=1, eos_token_id=None).save_pretrained(tmp_path)
    _, ends, _ = check_models(config(target=str(tmp_path), drafters=["lookup"]))
    check(ends, FindingState.WARNING, "none", "max_tokens")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_model_that_may_not_be_read(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").touch(mode=0)
    target, _ = check_models(config(target=str(tmp_path), drafters=["lookup"]))
    check(target, FindingState.FAILED, str(tmp_path))


GIB = 2**30
LARGE = Footprint(weights=131 * GIB, token=320 * 1024)


@pytest.mark.parametrize(
    ("settings", "free", "state", "mentions"),
    [
        (
            {},
            79,
            FindingState.FAILED,
            ["131.0 GiB of weights", "79.0 GiB of 80.0 GiB", "parallel: 2"],
        ),
        ({"parallel": 2}, 79, FindingState.OK, ["65.5 GiB of weights", "up to 13.5 GiB"]),
        ({"parallel": 4}, 79, FindingState.OK, ["32.8 GiB of weights"]),
        ({"parallel": 2, "kv_cache_bytes": 20 * GIB}, 79, FindingState.FAILED, ["parallel: 4"]),
        ({"parallel": 4, "kv_cache_bytes": 32 * GIB}, 79, FindingState.OK, ["32.0 GiB of"]),
        ({"parallel": 4}, 20, FindingState.FAILED, ["20.0 GiB of 80.0 GiB"]),
        ({"num_gpus": 0.5}, 79, FindingState.FAILED, ["40.0 GiB of 80.0 GiB", "parallel: 4"]),
    ],
)
def test_gpu_memory(
    settings: dict[str, Any], free: int, state: FindingState, mentions: list[str]
) -> None:
    model = ModelConfig.model_validate({"model": "x", "device": "cuda", **settings})
    check(check_fit("target", model, LARGE, free * GIB, 80 * GIB), state, *mentions)


def test_gpu_memory_of_the_demo_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (7 * GIB, 8 * GIB))
    pair = on_devices(config(target="demo", drafters=["demo"]), gpus=2)
    target, drafter = check_gpu_memory(pair)
    check(target, FindingState.OK, "target memory", "GiB of weights", "of 8.0 GiB")
    check(drafter, FindingState.OK, "drafter memory")
    assert not list(check_gpu_memory(on_devices(config(target="demo"), gpus=0)))


def test_room() -> None:
    wanted = [{"CPU": 0.001}, {"CPU": 0.001, "GPU": 1.0}, {"CPU": 0.001, "GPU": 2.0}]
    check(check_room(wanted, {"CPU": 1.0, "GPU": 3.0}), FindingState.OK, "3 GPU")
    check(check_room(wanted, {"CPU": 1.0}), FindingState.FAILED, "3 GPU", "0 GPU", "--sp-degree")
    check(check_room([{"CPU": 0.001}], {}), FindingState.FAILED, "0 CPU")


def test_gpus_that_ray_does_not_have() -> None:
    check(check_gpus(1_000_000), FindingState.OK)
    check(check_gpus(-1), FindingState.WARNING, "--num-gpus")


def test_the_cluster(ray_cluster: None) -> None:
    ray, gpus, room = check_cluster(config(sp_degree=2))
    check(ray, FindingState.OK, "nodes: 1")
    check(gpus, FindingState.OK)
    check(room, FindingState.OK)
