"""Measure the shipped pair: `python -m dsi_ray.demo.evaluate`.

The target continues held-out code greedily, from the first tokens of documents that it was not
trained on.  Acceptance is counted on those of its outputs that do not loop, as a loop is easy to
draft: the share of the output's positions at which the drafter, given the same text, has the
target's token as its first choice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, LlamaForCausalLM

from dsi_ray.demo import DRAFTER_DIR, TARGET_DIR
from dsi_ray.demo.corpus import read_files
from dsi_ray.demo.greedy import continue_greedily, loops, outputs, written
from dsi_ray.demo.stream import TokenStream, tokenize_documents

PROMPT_TOKENS = 48
NEW_TOKENS = 128
_SEED = 7


@dataclass(frozen=True)
class Agreement:
    """How often a drafter agrees with the target's greedy outputs."""

    positions: int
    matches: int
    runs: int

    @property
    def rate(self) -> float:
        """The share of positions at which the drafter is right."""
        return self.matches / self.positions

    @property
    def geometric_fit(self) -> float:
        """The acceptance rate of a geometric law with the same mean number of accepted tokens."""
        return 1 - 1 / (1 + self.matches / self.runs)


@torch.inference_mode()
def agreement(drafter: LlamaForCausalLM, sequences: Tensor, prompt_length: int) -> Agreement:
    """Compare the drafter's first choices with each token that the target wrote.

    A run of accepted tokens ends at a rejected one, or with the output.
    """
    own = written(sequences, prompt_length)[:, 1:]
    right = drafter(sequences).logits[:, :-1].argmax(-1) == sequences[:, 1:]
    matches = int((right & own).sum())
    positions = int(own.sum())
    return Agreement(positions, matches, positions - matches + len(sequences))


@torch.inference_mode()
def milliseconds_per_token(model: LlamaForCausalLM, context: int = 50, repeats: int = 30) -> float:
    """Return the median time of a one-token step on the threads that torch has."""
    cache = DynamicCache(config=model.config)
    model(torch.full((1, context), 5), cache=cache, use_cache=True)
    step = torch.full((1, 1), 5)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        model(step, cache=cache, use_cache=True)
        times.append(1000 * (time.perf_counter() - start))
    return median(times)


def load(folder: Path) -> LlamaForCausalLM:
    """Load a model for computing in single precision."""
    model: LlamaForCausalLM = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def main(
    target_dir: Annotated[Path, typer.Option(help="The target's folder.")] = TARGET_DIR,
    drafter_dir: Annotated[Path, typer.Option(help="The drafter's folder.")] = DRAFTER_DIR,
    prompts: Annotated[int, typer.Option(help="Number of held-out prompts.")] = 60,
) -> None:
    """Print the pair's looping share, acceptance and times (one thread)."""
    torch.set_num_threads(1)
    target, drafter = load(target_dir), load(drafter_dir)
    documents = tokenize_documents(
        read_files(held_out=True), AutoTokenizer.from_pretrained(target_dir)
    )
    starts = TokenStream(documents, _SEED).prompts(prompts, PROMPT_TOKENS)
    sequences = continue_greedily(target, starts, NEW_TOKENS)
    looping = torch.tensor([loops(output) for output in outputs(sequences, PROMPT_TOKENS)])
    lengths = written(sequences, PROMPT_TOKENS).sum(1).float()
    fresh = agreement(drafter, sequences[~looping], PROMPT_TOKENS)
    every = agreement(drafter, sequences, PROMPT_TOKENS)
    target_ms, drafter_ms = milliseconds_per_token(target), milliseconds_per_token(drafter)

    table = Table("measure", "value")
    table.add_row("prompts", f"{prompts} of {PROMPT_TOKENS} tokens, {NEW_TOKENS} new at most")
    table.add_row("looping outputs", f"{int(looping.sum())} ({looping.float().mean():.0%})")
    table.add_row("mean output length", f"{lengths.mean():.0f} tokens")
    table.add_row("outputs that end", f"{int((lengths < NEW_TOKENS).sum())}")
    table.add_row("acceptance, not looping", f"{fresh.rate:.3f} of {fresh.positions} positions")
    table.add_row("same, geometric fit", f"{fresh.geometric_fit:.3f}")
    table.add_row("acceptance, all outputs", f"{every.rate:.3f} (fit {every.geometric_fit:.3f})")
    table.add_row("target", f"{target_ms:.1f} ms a token")
    table.add_row("drafter", f"{drafter_ms:.1f} ms a token ({drafter_ms / target_ms:.2f})")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
