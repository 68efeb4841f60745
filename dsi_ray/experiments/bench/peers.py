"""Peers for the bench: transformers' own `generate`, plain and with an assistant model."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.experiments.bench.bench import BenchOutput, Contender
from dsi_ray.models.checkpoints.checkpoint import find_device, load_checkpoint
from dsi_ray.models.checkpoints.vocabulary import checkpoint_source
from dsi_ray.params import SamplingParams


class TransformersContender:
    """`generate(do_sample=False)` in this process, with the target's settings."""

    def __init__(self, name: str, target: Any, threads: int, assistant: Any = None) -> None:
        self.name = name
        self._target = target
        self._threads = threads
        self._assistant = assistant

    def __call__(self, prompt: Sequence[int], params: SamplingParams) -> BenchOutput:
        """Generates once."""
        torch.set_num_threads(self._threads)
        ids = torch.tensor([list(prompt)], device=self._target.device)
        options = {} if self._assistant is None else {"assistant_model": self._assistant}
        started = time.perf_counter()
        output = self._target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=params.max_tokens,
            eos_token_id=None if params.ignore_eos else self._target.config.eos_token_id,
            pad_token_id=0,
            **options,
        )
        seconds = time.perf_counter() - started
        return BenchOutput(tuple(output[0, len(prompt) :].tolist()), seconds, ttft_ms=None)


def peers(config: EngineConfig) -> Iterator[Contender]:
    """The peers that can run the models of ``config``; none for simulated ones."""
    target = _load(config.target, Role.TARGET)
    if target is None:
        return
    threads = config.target.threads
    yield TransformersContender("HF", target, threads)
    for drafter in config.drafters:
        assistant = _load(drafter, Role.DRAFTER)
        if assistant is not None:
            yield TransformersContender("HF assist", target, threads, assistant)
            return


def _load(model: ModelConfig, role: Role) -> Any:
    source = checkpoint_source(model, role)
    return None if source is None else load_checkpoint(source, model.dtype, find_device(model))
