"""Greedy continuations in batches, and what is wrong with some of them: loops."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, StaticCache

from dsi_ray.demo.tokenizer import END_ID

LONGEST_PERIOD = 32
LOOP_REPEATS = 3
REPEAT_NGRAM = 6
REPEAT_WINDOW = 64
MOSTLY = 0.5


@torch.no_grad()
def continue_greedily(model: LlamaForCausalLM, prompts: Tensor, new_tokens: int) -> Tensor:
    """Return the prompts (all of one length) with `new_tokens` greedy tokens each.

    A row that has ended is filled up with its end token.
    """
    rows, length = prompts.shape
    cache = StaticCache(config=model.config, max_cache_len=length + new_tokens)
    tokens = torch.full((rows, length + new_tokens), END_ID)
    tokens[:, :length] = prompts
    ended = torch.zeros(rows, dtype=torch.bool)
    step = prompts
    for position in range(length, length + new_tokens):
        logits = model(step, cache=cache, use_cache=True, logits_to_keep=1).logits
        chosen = logits[:, -1].argmax(-1).masked_fill(ended, END_ID)
        tokens[:, position] = chosen
        ended |= chosen == END_ID
        if ended.all():
            break
        step = chosen[:, None]
    return tokens


def written(sequences: Tensor, prompt_length: int) -> Tensor:
    """Return a mask of the tokens that the model wrote: after the prompt, up to its first end."""
    ends = sequences[:, prompt_length:] == END_ID
    mask = torch.zeros_like(sequences, dtype=torch.bool)
    mask[:, prompt_length:] = (ends.cumsum(1) - ends.long()) == 0
    return mask


def outputs(sequences: Tensor, prompt_length: int) -> Iterator[list[int]]:
    """Yield what each row wrote after its prompt, without the end token."""
    for row, mask in zip(sequences, written(sequences, prompt_length), strict=True):
        yield [token for token in row[mask].tolist() if token != END_ID]


def loops(output: list[int]) -> bool:
    """Tell whether an output ends going round in circles, or is mostly copied from itself.

    Circles are `LOOP_REPEATS` or more copies of at most `LONGEST_PERIOD` tokens; the second
    condition catches longer ones, and those that are broken by a token now and then.
    """
    for period in range(1, LONGEST_PERIOD + 1):
        tail = output[-period * LOOP_REPEATS :]
        if len(tail) == period * LOOP_REPEATS and tail[period:] == tail[:-period]:
            return True
    return bool(output) and repeats(torch.tensor([output])).float().mean().item() > MOSTLY


def repeats(sequences: Tensor) -> Tensor:
    """Return a mask of the tokens that end a copy of `REPEAT_NGRAM` or more recent tokens."""
    rows, length = sequences.shape
    mask = torch.zeros(rows, length, dtype=torch.bool)
    for offset in range(1, min(REPEAT_WINDOW, length - REPEAT_NGRAM) + 1):
        same = sequences[:, offset:] == sequences[:, :-offset]
        copied = same.unfold(1, REPEAT_NGRAM, 1).all(-1)
        mask[:, offset + REPEAT_NGRAM - 1 :] |= copied
    return mask
