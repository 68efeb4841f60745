"""The models' forward pass for training: the same sums as in transformers, but compilable.

One function does one layer and takes the layer's weights as arguments, so that `torch.compile`
makes a single kernel for all layers.  Training is a third faster for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM


def hidden_states(model: LlamaForCausalLM, tokens: Tensor, exits: tuple[int, ...]) -> list[Tensor]:
    """Return the normed hidden states after each number of layers in `exits` (ascending)."""
    x = model.model.embed_tokens(tokens)
    positions = torch.arange(tokens.shape[1])[None]
    cos, sin = model.model.rotary_emb(x, positions)
    norm = model.model.norm
    states = []
    run_layer = _compiled_layer()
    for number, layer in enumerate(model.model.layers, start=1):
        attention, mlp = layer.self_attn, layer.mlp
        x = run_layer(
            x,
            cos,
            sin,
            layer.input_layernorm.weight,
            attention.q_proj.weight,
            attention.k_proj.weight,
            attention.v_proj.weight,
            attention.o_proj.weight,
            layer.post_attention_layernorm.weight,
            mlp.gate_proj.weight,
            mlp.up_proj.weight,
            mlp.down_proj.weight,
            attention.head_dim,
            norm.variance_epsilon,
        )
        if number in exits:
            states.append(
                functional.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)
            )
        if number == exits[-1]:
            break
    return states


def logits_of(model: LlamaForCausalLM, tokens: Tensor) -> Tensor:
    """Return the model's logits at every position."""
    (last,) = hidden_states(model, tokens, (len(model.model.layers),))
    logits: Tensor = model.lm_head(last)
    return logits


@cache
def _compiled_layer() -> Callable[..., Tensor]:
    """Compile on first use only: users of the finished models have no need of the compiler."""
    compiled: Callable[..., Tensor] = torch.compile(_layer, dynamic=False)
    return compiled


def _layer(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    norm1: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    norm2: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    head_dim: int,
    epsilon: float,
) -> Tensor:
    """Return a layer's output, given its input and all its weights."""
    rows, length, width = x.shape

    def heads(projected: Tensor) -> Tensor:
        return projected.view(rows, length, -1, head_dim).transpose(1, 2)

    def rotate(states: Tensor) -> Tensor:
        first, second = states.chunk(2, dim=-1)
        return states * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]

    h = functional.rms_norm(x, (width,), norm1, epsilon)
    q_states = rotate(heads(functional.linear(h, q)))
    k_states = rotate(heads(functional.linear(h, k)))
    v_states = heads(functional.linear(h, v))
    attended = functional.scaled_dot_product_attention(
        q_states.to(v_states.dtype), k_states.to(v_states.dtype), v_states, is_causal=True
    )
    x = x + functional.linear(attended.transpose(1, 2).reshape(rows, length, width), o)
    h = functional.rms_norm(x, (width,), norm2, epsilon)
    return x + functional.linear(
        functional.silu(functional.linear(h, gate)) * functional.linear(h, up), down
    )
