"""What loads, and in which words the rest is refused."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import CONFIGS, serve, tiny_model
from torch import nn
from transformers import (
    BertConfig,
    DeepseekV32Config,
    JambaConfig,
    Lfm2Config,
    MambaConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
    RwkvConfig,
    T5Config,
)

from dsi_ray.config import ModelConfig
from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoints import checkpoint
from dsi_ray.models.checkpoints.checkpoint import (
    context_reason,
    find_device,
    load_checkpoint,
    locate,
    max_context,
    refuse_unsuitable,
)
from dsi_ray.models.checkpoints.footprint import footprint

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float64 checkpoint without a tokenizer."""
    folder = tmp_path_factory.mktemp("llama")
    tiny_model("llama").save_pretrained(folder)
    return folder


def test_a_local_directory_is_loaded_in_eval_mode(llama: Path) -> None:
    model = load_checkpoint(str(llama), "float64", CPU)
    assert not model.training
    assert not any(weights.requires_grad for weights in model.parameters())
    expected = tiny_model("llama").state_dict()
    assert all(torch.equal(expected[name], w) for name, w in model.state_dict().items())


@pytest.mark.parametrize(("asked", "dtype"), [("auto", "float32"), ("bfloat16", "bfloat16")])
def test_dtype(llama: Path, asked: str, dtype: str) -> None:
    model = load_checkpoint(str(llama), asked, CPU)
    assert model.dtype is getattr(torch, dtype)


@pytest.mark.gpu
def test_auto_dtype_on_a_gpu_is_the_checkpoints(llama: Path) -> None:
    assert load_checkpoint(str(llama), "auto", torch.device("cuda")).dtype is torch.float64


def test_a_local_directory_is_never_looked_for_on_the_network(llama: Path) -> None:
    assert locate(str(llama))["local_files_only"] is True


@pytest.mark.parametrize("source", ["/no/such/model", "./nothing", "~/nothing", "models/x.gguf"])
def test_a_path_to_nothing(source: str) -> None:
    with pytest.raises(ModelError, match="no such model directory or GGUF file; correct the path"):
        load_checkpoint(source, "auto", CPU)


def test_a_hub_id_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("We couldn't connect to 'https://huggingface.co'.\nCheck your connection.")

    monkeypatch.setattr(checkpoint.AutoConfig, "from_pretrained", unreachable)
    with pytest.raises(ModelError, match="someone/something: cannot be loaded") as caught:
        load_checkpoint("someone/something", "auto", CPU)
    assert "couldn't connect" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_checkpoint(str(tmp_path), "auto", CPU)


def test_a_directory_without_weights(tmp_path: Path) -> None:
    CONFIGS["llama"].save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_checkpoint(str(tmp_path), "auto", CPU)


def test_a_file_that_is_not_gguf(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"no")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_checkpoint(str(file), "auto", CPU)


def test_gguf_without_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    monkeypatch.setattr(checkpoint, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="needs gguf and accelerate; pip install 'dsi-ray"):
        load_checkpoint(str(file), "auto", CPU)


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(num_hidden_layers=2),
        RwkvConfig(num_hidden_layers=2),
        JambaConfig(num_hidden_layers=8),
        Qwen3NextConfig(num_hidden_layers=4),
        Lfm2Config(num_hidden_layers=2, layer_types=["conv", "full_attention"]),
        DeepseekV32Config(num_hidden_layers=2),
    ],
    ids=lambda config: config.model_type,
)
def test_a_state_that_cannot_be_cropped_is_refused(
    config: PreTrainedConfig, tmp_path: Path
) -> None:
    config.save_pretrained(tmp_path)  # without weights: the refusal comes before they are read
    with pytest.raises(ModelError, match=f"{config.model_type} keeps a state that cannot"):
        load_checkpoint(str(tmp_path), "auto", CPU)


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_attention_in_every_layer_is_fine(kind: str) -> None:
    refuse_unsuitable("model", CONFIGS[kind])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (T5Config(), "encoder-decoder models are not supported"),
        (PreTrainedConfig(), "is not a causal language model"),
    ],
)
def test_other_kinds_of_models_are_refused(config: PreTrainedConfig, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        refuse_unsuitable("model", config)


@pytest.mark.parametrize(
    ("settings", "gpu"),
    [
        ({}, False),
        ({"num_gpus": 0}, False),
        ({"num_gpus": 1}, True),
        ({"device": "cuda"}, True),
        ({"device": "cpu", "num_gpus": 1}, False),
    ],
)
def test_device(settings: dict[str, Any], gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    device = find_device(ModelConfig(model="x", **settings))
    assert device == torch.device("cuda:0" if gpu else "cpu")


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match="torch sees no GPU here; use device: cpu"):
        find_device(ModelConfig(model="x", device="cuda"))


def test_rotations_that_change_with_the_length_limit_the_context() -> None:
    config = CONFIGS["llama"]
    assert max_context(config) == 48
    scaled = type(config)(
        **{
            **config.to_dict(),
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10_000.0,
                "long_factor": [1.0] * 4,
                "short_factor": [1.0] * 4,
                "factor": 2.0,
                "original_max_position_embeddings": 24,
            },
        }
    )
    assert max_context(scaled) == 24
    assert "longrope" in context_reason(scaled) and "48" in context_reason(scaled)
    assert context_reason(config) == ""
    assert max_context(BertConfig(max_position_embeddings=7)) == 7


def own_code(folder: Path) -> None:
    """A checkpoint with code of its own, of a kind that transformers does not know."""
    (folder / "model.py").write_text("raise SystemExit('this ran')")
    settings = {"model_type": "unheard-of", "auto_map": {"AutoConfig": "model.Config"}}
    (folder / "config.json").write_text(json.dumps(settings))


def half_a_file(folder: Path) -> None:
    """Weights that end too soon."""
    tiny_model("llama").save_pretrained(folder)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def no_json(folder: Path) -> None:
    """A configuration that is none."""
    (folder / "config.json").write_text("{")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (own_code, "code of its own, which is never run here"),
        (half_a_file, "see that its files are whole"),
        (no_json, "see that its files are whole"),
        (lambda folder: None, "give a model directory"),
    ],
)
def test_each_error_ends_with_what_to_do_about_it(
    make: Callable[[Path], None], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question on the terminal"))
    make(tmp_path)
    with pytest.raises(ModelError) as caught:
        load_checkpoint(str(tmp_path), "auto", CPU)
    assert told in str(caught.value)
    assert ("give a model directory" in str(caught.value)) == (told == "give a model directory")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["someone/something", "model.gguf", "."])
def test_no_checkpoint_runs_its_own_code(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "find_spec", lambda _: object())
    (tmp_path / "model.gguf").touch()
    assert locate(source)["trust_remote_code"] is False


def test_a_hub_that_does_not_answer_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        monkeypatch.setattr(
            checkpoint.huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}"
        )
        checkpoint.can_reach_hub.cache_clear()
        assert locate("someone/something")["local_files_only"] is False
    checkpoint.can_reach_hub.cache_clear()
    assert locate("someone/something")["local_files_only"] is True
    checkpoint.can_reach_hub.cache_clear()


def test_weights_that_do_not_fit(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(nn.Module, "to", full)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (30_000, 60_000))
    with pytest.raises(ModelError, match="its weights of 0.0 GiB do not fit on the GPU") as caught:
        load_checkpoint(str(llama), "float64", torch.device("cuda", 0))
    # 73,344 bytes.
    assert str(caught.value).endswith("parallel: 2 would fit, or take a smaller dtype or model")


@pytest.mark.parametrize("kind", sorted(CONFIGS))
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_footprint_is_told_without_weights(kind: str, dtype: str, tmp_path: Path) -> None:
    CONFIGS[kind].save_pretrained(tmp_path)
    found = footprint(locate(str(tmp_path)), dtype, on_gpu=False)
    assert found is not None
    wide = 8 // getattr(torch, dtype).itemsize
    assert found.weights * wide == sum(w.nbytes for w in tiny_model(kind).parameters())
    assert found.token * wide == serve(kind).info.kv_bytes_per_token
