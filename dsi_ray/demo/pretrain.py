"""Phase 1: train the target on text, with an early exit at the drafter's depth.

The exit costs the target little and gives the drafter its start: the same first layers, already
able to predict tokens and to see the text as the target does.
"""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from dsi_ray.demo.clock import steps_for, warm_up_then_decay
from dsi_ray.demo.models import full_and_early_logits, next_token_loss
from dsi_ray.demo.optimizer import Optimizer
from dsi_ray.demo.stream import TokenStream

EARLY_EXIT_WEIGHT = 0.3
_BATCH_TOKENS = 2048
_REPORT_EVERY = 200

log = logging.getLogger(__name__)


def pretrain(
    model: LlamaForCausalLM,
    stream: TokenStream,
    held_out: Tensor,
    minutes: float,
    partial: Path,
) -> None:
    """Train `model` in place on next-token prediction, at its full depth and at the exit.

    The weights are kept in `partial` on the way, and taken up from there if it exists.
    """
    if partial.exists():
        model.load_state_dict(torch.load(partial))
    optimizer = Optimizer(model, muon_rate=0.02, adam_rate=0.004)
    for step, share in steps_for(minutes, "pretrain"):
        length = 1024 if step % 8 == 7 else 256
        tokens = stream.batch(_BATCH_TOKENS // length, length)
        with torch.autocast("cpu", torch.bfloat16):
            full, early = full_and_early_logits(model, tokens)
        loss, early_loss = next_token_loss(full, tokens), next_token_loss(early, tokens)
        torch.autograd.backward(loss + EARLY_EXIT_WEIGHT * early_loss)
        optimizer.step(warm_up_then_decay(step, share, floor=0.02))
        if step % 20 == 0:
            log.info("step %d: loss %.3f, early exit %.3f", step, loss.item(), early_loss.item())
        if step % _REPORT_EVERY == _REPORT_EVERY - 1:
            log.info("step %d: held-out loss %.3f", step, validation_loss(model, held_out))
            torch.save(model.state_dict(), partial)


@torch.no_grad()
def validation_loss(model: LlamaForCausalLM, held_out: Tensor) -> float:
    """Return the mean loss over held-out rows (as many at once as a training batch has)."""
    with torch.autocast("cpu", torch.bfloat16):
        losses = [
            next_token_loss(full_and_early_logits(model, rows)[0], rows)
            for rows in torch.split(held_out, 8)
        ]
    return float(torch.stack(losses).mean())
