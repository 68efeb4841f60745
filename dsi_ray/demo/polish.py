"""Phase 2: teach the target not to loop, and target and early exit to agree.

The target continues training prompts greedily.  Tokens that only repeat what it wrote just before
are made less likely (sequence-level unlikelihood, Welleck et al. 2019); on the others, the early
exit learns the target's distribution, the target yields a little to the exit's, and both grow surer
of what was chosen, as near-ties are what a drafter gets wrong.  Plain text is mixed in to keep the
model's knowledge.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM

from dsi_ray.demo.clock import steps_for, warm_up_then_decay
from dsi_ray.demo.greedy import continue_greedily, loops, outputs, repeats, written
from dsi_ray.demo.models import full_and_early_logits, next_token_loss
from dsi_ray.demo.optimizer import Optimizer
from dsi_ray.demo.pretrain import EARLY_EXIT_WEIGHT
from dsi_ray.demo.stream import TokenStream
from dsi_ray.demo.tokenizer import END_ID

UNLIKELIHOOD_WEIGHT = 2.0
IMITATION_WEIGHT = 1.0
YIELDING_WEIGHT = 0.5
COMMITMENT_WEIGHT = 0.15
SEQUENCE_TOKENS = 160
PROMPT_TOKENS = (16, 32, 64)
_ROWS = 16
_POOL_ROWS = 64
_STEPS_PER_POOL = 6

log = logging.getLogger(__name__)


def polish(model: LlamaForCausalLM, stream: TokenStream, minutes: float) -> None:
    """Train `model` in place on plain text and on its own greedy continuations."""
    optimizer = Optimizer(model, muon_rate=0.004, adam_rate=0.0008)
    for step, share in steps_for(minutes, "polish"):
        if step % _STEPS_PER_POOL == 0:
            prompt_tokens = PROMPT_TOKENS[step // _STEPS_PER_POOL % len(PROMPT_TOKENS)]
            pool = own_continuations(model, stream, prompt_tokens, _POOL_ROWS)
        rows = pool[torch.randperm(len(pool))[:_ROWS]]
        text = stream.batch(4, 256)
        with torch.autocast("cpu", torch.bfloat16):
            text_full, text_early = full_and_early_logits(model, text)
            own_full, own_early = full_and_early_logits(model, rows)
        loss = next_token_loss(text_full, text)
        repeating, imitating, agreement = _own_text_losses(own_full, own_early, rows, prompt_tokens)
        total = loss + EARLY_EXIT_WEIGHT * next_token_loss(text_early, text)
        torch.autograd.backward(total + UNLIKELIHOOD_WEIGHT * repeating + imitating)
        optimizer.step(warm_up_then_decay(step, share, floor=0.02))
        if step % _STEPS_PER_POOL == 0:
            log.info(
                "polish %d: text loss %.3f, unlikelihood %.3f, imitation %.3f, agreement %.3f,"
                " looping %.2f, length %.0f",
                step,
                loss.item(),
                repeating.item(),
                imitating.item(),
                agreement.item(),
                looping_share(pool, prompt_tokens),
                written(pool, prompt_tokens).sum(1).float().mean().item(),
            )


def own_continuations(
    model: LlamaForCausalLM, stream: TokenStream, prompt_tokens: int, rows: int
) -> Tensor:
    """Return greedy continuations of training prompts, `SEQUENCE_TOKENS` long with the prompt."""
    prompts = stream.prompts(rows, prompt_tokens)
    return continue_greedily(model, prompts, SEQUENCE_TOKENS - prompt_tokens)


def looping_share(sequences: Tensor, prompt_tokens: int) -> float:
    """Return the share of the rows whose own part ends in a loop."""
    found = [loops(output) for output in outputs(sequences, prompt_tokens)]
    return sum(found) / len(found)


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of each position, from log-probabilities."""
    return functional.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)


def _own_text_losses(
    full: Tensor, early: Tensor, rows: Tensor, prompt_tokens: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the unlikelihood of repeated tokens, the difference of target and exit elsewhere,
    and the share of those other tokens on which they agree."""
    own = written(rows, prompt_tokens)[:, 1:]
    repeated = repeats(rows)[:, 1:] & own
    full_log = full[:, :-1].float().log_softmax(-1)
    early_log = early[:, :-1].float().log_softmax(-1)
    tokens = rows[:, 1:, None]
    full_chosen, early_chosen = (
        full_log.gather(-1, tokens)[..., 0],
        early_log.gather(-1, tokens)[..., 0],
    )
    unlikelihood = -torch.log1p(-full_chosen.exp().clamp(max=0.9999))
    imitation = IMITATION_WEIGHT * divergence(full_log.detach(), early_log)
    yielding = YIELDING_WEIGHT * divergence(early_log.detach(), full_log)
    commitment = -COMMITMENT_WEIGHT * (full_chosen + early_chosen)
    fresh = own & ~repeated
    going_on = rows[:, 1:] != END_ID
    return (
        (unlikelihood * repeated).sum() / own.sum(),
        ((imitation + yielding + commitment * going_on) * fresh).sum() / fresh.sum(),
        (full_log.argmax(-1) == early_log.argmax(-1))[fresh].float().mean(),
    )
