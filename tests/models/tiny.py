"""Small random models of several architectures, and what they say without any cache."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    Llama4TextConfig,
    LlamaConfig,
    Ministral3Config,
    MistralConfig,
    PreTrainedConfig,
    Qwen3Config,
)

from dsi_ray.models.transformers_model import TransformersModel

VOCAB = 31
CONTEXT = 48
LAYERS = 3
WINDOW = 4
"""Of the sliding-window models: shorter than most texts in the tests."""

# Weights far larger than usual, so that every token depends on what comes before it.
_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.6,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": None,
}
_LAYER_TYPES = ["sliding_attention", "full_attention", "sliding_attention"]

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**_SHAPE),
    "mistral": MistralConfig(**_SHAPE, sliding_window=WINDOW),
    "gemma2": Gemma2Config(**_SHAPE, sliding_window=WINDOW, layer_types=_LAYER_TYPES),
    "gemma3": Gemma3TextConfig(**_SHAPE, sliding_window=WINDOW, layer_types=_LAYER_TYPES),
    "qwen3": Qwen3Config(**_SHAPE),
    "llama4": Llama4TextConfig(
        **_SHAPE,
        intermediate_size_mlp=24,
        num_local_experts=2,
        moe_layers=[1],
        no_rope_layers=[1, 0, 1],
        attention_chunk_size=8,
        floor_scale=4,
        attn_scale=0.5,
        attn_temperature_tuning=True,
    ),
    "ministral3": Ministral3Config(
        **_SHAPE,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "llama_4_scaling_beta": 0.5,
            "original_max_position_embeddings": 8,
        },
    ),
    "gpt2": GPT2Config(
        vocab_size=VOCAB,
        n_embd=16,
        n_layer=LAYERS,
        n_head=2,
        n_positions=CONTEXT,
        initializer_range=0.6,
        bos_token_id=None,
        eos_token_id=0,
    ),
    "gpt_neox": GPTNeoXConfig(
        **{k: v for k, v in _SHAPE.items() if k not in ("num_key_value_heads", "head_dim")}
    ),
}


@cache
def tiny_model(kind: str, device: str = "cpu") -> Any:
    """Returns a random float64 model; always the same weights."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind], dtype=torch.float64)
    return model.eval().requires_grad_(False).to(device)


@cache
def served_model(kind: str, device: str) -> Any:
    """Returns a copy of `tiny_model` that runs as `load_model` makes it run."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind], dtype=torch.float64)
    return model.eval().requires_grad_(False).to(device)


def layers_of(kind: str, device: str = "cpu") -> nn.ModuleList:
    """Returns the decoder layers of a served model: the longest list of modules."""
    modules = served_model(kind, device).modules()
    return max((module for module in modules if isinstance(module, nn.ModuleList)), key=len)


@contextmanager
def stopped_at(kind: str, layer: int, device: str = "cpu") -> Iterator[threading.Event]:
    """Yields an event that is set while a served model's forward enters ``layer``."""
    stop = threading.Event()
    handle = layers_of(kind, device)[layer].register_forward_pre_hook(lambda *_: stop.set())
    yield stop
    handle.remove()


def serve(kind: str, device: str = "cpu", kv_cache_bytes: int = 2**30) -> TransformersModel:
    """Returns a served model with an empty cache."""
    return TransformersModel(kind, served_model(kind, device), VOCAB, kv_cache_bytes, eos_ids=(0,))


@cache
def expected_tokens(kind: str, tokens: tuple[int, ...], device: str = "cpu") -> list[int]:
    """Returns the model's own tokens at positions 1 .. len(tokens), from one forward, no cache."""
    with torch.inference_mode():
        ids = torch.tensor([tokens], device=device)
        return (
            tiny_model(kind, device)(input_ids=ids, use_cache=False).logits[0].argmax(-1).tolist()
        )
