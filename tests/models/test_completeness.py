"""A checkpoint gives a model all its weights, or is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import CONFIGS, tiny_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoints.checkpoint import check_checkpoint, load_checkpoint
from dsi_ray.models.load import load_model

CPU = torch.device("cpu")
UP = "model.layers.1.mlp.up_proj.weight"
Weights = dict[str, Tensor]


def change_weights(folder: Path, change: Callable[[Weights], Weights]) -> str:
    """Writes a checkpoint with other tensors than it should have."""
    tiny_model("llama").save_pretrained(folder)
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})
    return str(folder)


def change_config(folder: Path, **settings: Any) -> str:
    """Writes a checkpoint whose configuration says something else."""
    tiny_model("llama").save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return str(folder)


INCOMPLETE: dict[str, tuple[Callable[[Weights], Weights], str]] = {
    "one is gone": (
        lambda weights: {name: w for name, w in weights.items() if name != UP},
        rf"lacks weights \({UP}\)",
    ),
    "the head is gone": (
        lambda weights: {name: w for name, w in weights.items() if name != "lm_head.weight"},
        r"lacks weights \(lm_head.weight\)",
    ),
    "all have other names": (
        lambda weights: {f"transformer.{name}": w for name, w in weights.items()},
        r"lacks weights \(lm_head.weight, model.embed_tokens.weight, .* and 27 more\)",
    ),
    "quantized, without a word": (
        lambda weights: {name.replace(".weight", ".qweight"): w for name, w in weights.items()},
        "lacks weights",
    ),
    "one has another size": (
        lambda weights: weights | {"model.norm.weight": torch.ones(3)},
        r"of other sizes than its configuration says \(model.norm.weight\)",
    ),
    "a bias that the architecture does not add": (
        lambda weights: weights | {UP.replace("weight", "bias"): torch.ones(24)},
        r"no use \(model.layers.1.mlp.up_proj.bias\)",
    ),
    "a scale that nobody multiplies with": (
        lambda weights: weights | {UP.replace("weight", "weight_scale"): torch.ones(1)},
        r"no use \(model.layers.1.mlp.up_proj.weight_scale\)",
    ),
}


@pytest.mark.parametrize(("change", "message"), INCOMPLETE.values(), ids=INCOMPLETE)
@pytest.mark.parametrize("role", Role)
def test_weights_that_do_not_match_are_refused(
    tmp_path: Path, change: Callable[[Weights], Weights], message: str, role: Role
) -> None:
    source = change_weights(tmp_path, change)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(ModelConfig(model=source), role)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "extra", ["vision.blocks.0.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"]
)
def test_what_is_no_part_of_the_text_model_does_no_harm(tmp_path: Path, extra: str) -> None:
    source = change_weights(tmp_path, lambda weights: weights | {extra: torch.ones(4)})
    load_checkpoint(source, "auto", CPU)


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_complete_checkpoints_load(kind: str, tmp_path: Path) -> None:
    tiny_model(kind).save_pretrained(tmp_path)
    load_checkpoint(str(tmp_path), "auto", CPU)


def test_a_head_that_is_tied_need_not_be_there(tmp_path: Path) -> None:
    config = type(CONFIGS["llama"])(**CONFIGS["llama"].to_dict() | {"tie_word_embeddings": True})
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    load_checkpoint(str(tmp_path), "auto", CPU)


def test_a_quantization_that_transformers_would_skip(tmp_path: Path) -> None:
    source = change_config(tmp_path, quantization_config={"quant_method": "mine", "bits": 4})
    with pytest.raises(ModelError, match="does not know its quant_method 'mine'"):
        check_checkpoint(source)


def test_a_quantization_without_a_method(tmp_path: Path) -> None:
    source = change_config(tmp_path, quantization_config={"bits": 4})
    with pytest.raises(ModelError, match="no `quant_method`"):
        check_checkpoint(source)


def write_gguf(file: Path, without: str) -> None:
    """Writes a llama of one layer, one of whose tensors may be missing."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(32)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(32)
    square = ["token_embd", "output", *(f"blk.0.attn_{part}" for part in ("q", "k", "v", "output"))]
    square += [f"blk.0.ffn_{part}" for part in ("gate", "up", "down")]
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(square, (32, 32))
    shapes |= dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (32,))
    for name, shape in shapes.items():
        if name != without:
            writer.add_tensor(f"{name}.weight", torch.ones(shape).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf(tmp_path: Path) -> None:
    write_gguf(tmp_path / "whole.gguf", without="")
    load_checkpoint(str(tmp_path / "whole.gguf"), "auto", CPU)
    write_gguf(tmp_path / "part.gguf", without="blk.0.ffn_up")
    with pytest.raises(ModelError, match="lacks weights .*up_proj.weight"):
        load_checkpoint(str(tmp_path / "part.gguf"), "auto", CPU)
