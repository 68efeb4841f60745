"""On real Ray, at any temperature and with every parameter on: one seed, one text."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
import torch

from dsi_ray.config import Algorithm
from dsi_ray.models.base import Sampling
from dsi_ray.models.sampling import choose
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.request import Completion, Decoding

from .conftest import EOS, Pair

MAX_TOKENS = 20
NON_SI = Decoding(Algorithm.NON_SI)
OTHERS = [
    Decoding(Algorithm.SI, 3),
    *(Decoding(Algorithm.DSI, k, sp) for sp in (1, 2, 3) for k in (2, "auto")),
]
temperatures = pytest.mark.parametrize("temperature", [0.3, 2.0])


def everything_on(temperature: float, seed: int, **fields: Any) -> SamplingParams:
    """Parameters of which none is neutral."""
    every: dict[str, Any] = {
        "max_tokens": MAX_TOKENS,
        "min_tokens": 5,
        "temperature": temperature,
        "top_k": 30,
        "top_p": 0.97,
        "min_p": 0.01,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
        "logit_bias": {4: 1.5, 7: -1.0},
        "bad_token_ids": (3,),
        "allowed_token_ids": tuple(range(36)),
        "stop_token_ids": (9,),
        "logprobs": 3,
        "seed": seed,
    }
    return SamplingParams(**(every | fields))


def check_equal(found: Completion, expected: Completion) -> None:
    """The same tokens and, but for the last bits of a block forward, the same log probabilities."""
    assert found.tokens == expected.tokens
    assert found.finish_reason == expected.finish_reason
    assert len(found.logprobs) == len(found.tokens)
    for entry, other in zip(found.logprobs, expected.logprobs, strict=True):
        assert entry.logprob == pytest.approx(other.logprob, abs=1e-4)


@temperatures
@pytest.mark.parametrize("decoding", OTHERS, ids=str)
def test_one_seed_one_text(pair: Pair, decoding: Decoding, temperature: float) -> None:
    for seed, prompt in enumerate(pair.prompts[:3]):
        params = everything_on(temperature, seed)
        expected = pair.engine.generate(prompt, params, NON_SI)
        check_equal(pair.engine.generate(prompt, params, decoding), expected)


@temperatures
def test_plain_decoding_is_a_loop_over_the_model_itself(pair: Pair, temperature: float) -> None:
    for seed, prompt in enumerate(pair.prompts[:2]):
        params = everything_on(temperature, seed)
        ends = frozenset((*pair.engine.target.eos_ids, *params.stop_token_ids))
        vocab_size = pair.engine.target.vocab_size
        sampling = Sampling(params, len(prompt), ends, seed, vocab_size)
        path = list(prompt)
        while len(path) < len(prompt) + MAX_TOKENS and (
            path == list(prompt) or path[-1] not in ends
        ):
            with torch.inference_mode():
                logits = pair.reference(input_ids=torch.tensor([path])).logits[0, -1:]
            path += choose(logits, path, sampling).tokens
        assert list(pair.engine.generate(prompt, params, NON_SI).tokens) == path[len(prompt) :]


def test_without_a_seed_one_is_drawn_and_repeats_the_text(pair: Pair) -> None:
    params = SamplingParams(max_tokens=12, temperature=2, ignore_eos=True)
    first, second = (pair.engine.generate(pair.prompts[3], params) for _ in range(2))
    assert first.tokens != second.tokens
    assert first.stats.seed is not None
    again = SamplingParams(max_tokens=12, temperature=2, ignore_eos=True, seed=first.stats.seed)
    repeated = pair.engine.generate(pair.prompts[3], again, Decoding(Algorithm.DSI, 3, 2))
    assert repeated.tokens == first.tokens
    assert repeated.stats.seed == first.stats.seed


def test_greedy_requests_report_no_seed(pair: Pair) -> None:
    params = SamplingParams(max_tokens=2, seed=3)
    assert pair.engine.generate(pair.prompts[0], params).stats.seed is None


def test_bug_15_seeded_and_unseeded_requests_together(pair: Pair) -> None:
    """vLLM 10863: what runs beside a request does not change it."""
    seeded = [everything_on(1.0, seed) for seed in range(4)]
    alone = [pair.engine.generate(pair.prompts[2], params).tokens for params in seeded]

    async def tokens(params: SamplingParams) -> tuple[int, ...]:
        async with aclosing(pair.engine.stream(pair.prompts[2], params)) as chunks:
            return tuple([token async for chunk in chunks for token in chunk.tokens])

    async def together() -> list[tuple[int, ...]]:
        unseeded = SamplingParams(max_tokens=MAX_TOKENS, temperature=1.5)
        crowd = [
            params for one in seeded for params in (one, unseeded, SamplingParams(max_tokens=9))
        ]
        return await asyncio.gather(*map(tokens, crowd))

    assert asyncio.run(together())[::3] == alone


def test_streamed_logprobs_are_those_of_the_whole_answer(pair: Pair) -> None:
    params = everything_on(1.0, 1)

    async def streamed() -> list[float]:
        async with aclosing(pair.engine.stream(pair.prompts[1], params)) as chunks:
            return [entry.logprob async for chunk in chunks for entry in chunk.logprobs]

    whole = pair.engine.generate(pair.prompts[1], params)
    expected = [entry.logprob for entry in whole.logprobs]
    assert asyncio.run(streamed()) == pytest.approx(expected, abs=1e-4)


def test_bug_3_eos_mid_block(pair: Pair) -> None:
    """transformers 47912: nothing follows the end, in whatever place of a block it comes."""
    eos = pair.engine.target.eos_ids[0]
    ends = set()
    for seed in range(12):
        params = SamplingParams(
            max_tokens=24, temperature=1, seed=seed, logit_bias={eos: 6 if eos == EOS else 3}
        )
        found = pair.engine.generate(pair.prompts[3], params, Decoding(Algorithm.DSI, 8, 3))
        assert found.tokens == pair.engine.generate(pair.prompts[3], params, NON_SI).tokens
        assert eos not in found.tokens[:-1]
        ends.add(len(found.tokens))
    assert len(ends) > 1
