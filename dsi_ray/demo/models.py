"""The shapes of the two models, and how the drafter is cut out of the target.

Decoding time on a CPU goes with the number of layers and hardly with their width, so a deep and
thin target is slow enough to be worth speculating on and still small enough to ship.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dsi_ray.demo.forward import hidden_states
from dsi_ray.demo.tokenizer import END_ID, VOCAB_SIZE

MAX_LENGTH = 1024
TARGET_LAYERS = 30
DRAFTER_LAYERS = 7


def new_model(layers: int) -> LlamaForCausalLM:
    """Return a fresh model; each block starts as the identity, which lets deep stacks learn."""
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=END_ID,
    )
    model = LlamaForCausalLM(config)
    for block in model.model.layers:
        torch.nn.init.zeros_(block.self_attn.o_proj.weight)
        torch.nn.init.zeros_(block.mlp.down_proj.weight)
    return model


def cut_drafter(target: LlamaForCausalLM) -> LlamaForCausalLM:
    """Return a drafter that starts as the target's first layers (which were trained to exit)."""
    drafter = new_model(DRAFTER_LAYERS)
    wanted = drafter.state_dict()
    drafter.load_state_dict(
        {name: value.clone() for name, value in target.state_dict().items() if name in wanted}
    )
    return drafter


def full_and_early_logits(model: LlamaForCausalLM, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the target's logits and those it would give after the drafter's number of layers."""
    early, full = hidden_states(model, tokens, (DRAFTER_LAYERS, TARGET_LAYERS))
    return model.lm_head(full), model.lm_head(early)


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the mean cross entropy of each token given those before it."""
    return functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten())


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a model in bfloat16 with its tokenizer, as `from_pretrained` expects them."""
    half = LlamaForCausalLM(model.config)
    half.load_state_dict(model.state_dict())
    half.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
