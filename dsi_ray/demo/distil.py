"""Phase 3: train the drafter, now a model of its own, on what the finished target writes.

A draft is accepted if it is the target's own greedy choice after the target's own text, so that
is what the drafter is trained on: greedy continuations that do not loop, with the target's whole
distribution as the teacher and its first choice weighted on top.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM

from dsi_ray.demo.clock import steps_for, warm_up_then_decay
from dsi_ray.demo.forward import logits_of
from dsi_ray.demo.greedy import loops, outputs, written
from dsi_ray.demo.optimizer import Optimizer
from dsi_ray.demo.polish import PROMPT_TOKENS, divergence, own_continuations
from dsi_ray.demo.stream import TokenStream

FIRST_CHOICE_WEIGHT = 0.5
_ROWS = 16
_POOL_ROWS = 64
_STEPS_PER_POOL = 10

log = logging.getLogger(__name__)


def distil(
    target: LlamaForCausalLM, drafter: LlamaForCausalLM, stream: TokenStream, minutes: float
) -> None:
    """Train `drafter` in place to predict the greedy tokens of `target`."""
    optimizer = Optimizer(drafter, muon_rate=0.01, adam_rate=0.002)
    target.requires_grad_(False)
    rows, own = torch.empty(0, 0), torch.empty(0, 0)
    for step, share in steps_for(minutes, "distil"):
        if step % _STEPS_PER_POOL == 0:
            prompt_tokens = PROMPT_TOKENS[step // _STEPS_PER_POOL % len(PROMPT_TOKENS)]
            new = own_continuations(target, stream, prompt_tokens, _POOL_ROWS)
            new = _without_loops(new, prompt_tokens)
            own_new = written(new, prompt_tokens)
            rows = torch.cat([rows, new]) if step else new
            own = torch.cat([own, own_new]) if step else own_new
        chosen = torch.randint(len(rows), (_ROWS,))
        with torch.autocast("cpu", torch.bfloat16):
            teacher = logits_of(target, rows[chosen])
            student = logits_of(drafter, rows[chosen])
        loss, agreement = _loss(teacher, student, own[chosen])
        torch.autograd.backward(loss)
        optimizer.step(warm_up_then_decay(step, share, floor=0.02))
        if step % _STEPS_PER_POOL == 0:
            log.info("distil %d: loss %.3f, agreement %.3f", step, loss.item(), agreement)


def _without_loops(rows: Tensor, prompt_tokens: int) -> Tensor:
    return rows[torch.tensor([not loops(output) for output in outputs(rows, prompt_tokens)])]


def _loss(teacher: Tensor, student: Tensor, own: Tensor) -> tuple[Tensor, float]:
    """Return the loss over the positions before the target's own tokens, and the agreement."""
    chosen = own[:, 1:]
    teacher_log = teacher[:, :-1][chosen].float().log_softmax(-1)
    student_log = student[:, :-1][chosen].float().log_softmax(-1)
    first = teacher_log.argmax(-1)
    loss = divergence(teacher_log, student_log).mean()
    agreement = (student_log.argmax(-1) == first).float().mean().item()
    return loss + FIRST_CHOICE_WEIGHT * functional.nll_loss(student_log, first), agreement
