"""What fits into a server's memory, and what a drafter can take, on real Ray."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from dsi_ray.config import EngineConfig
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.errors import RequestError
from dsi_ray.runtime.request import Decoding

from .conftest import CONTEXT, VOCAB, random_model

ROOM = 64
"""Tokens that the KV cache of a target server holds: half of its context."""

DRAFTER_CONTEXT = 24
PROMPT = [5, 7, 11]


@pytest.fixture(scope="module")
def engine(
    ray_cluster: None, model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """A target with little memory, and a drafter that is always right and has a short context."""
    drafter = tmp_path_factory.mktemp("short")
    random_model(seed=1, layers=3, context=DRAFTER_CONTEXT).save_pretrained(drafter)
    PreTrainedTokenizerFast.from_pretrained(model_folder / "target").save_pretrained(drafter)
    token_bytes = 3 * 2 * 32 * 8  # layers, keys and values, hidden size, float64
    target = {"model": str(model_folder / "target"), "kv_cache_bytes": ROOM * token_bytes}
    config = EngineConfig.model_validate(
        {
            "target": {**target, "dtype": "float64"},
            "drafters": [{"model": str(drafter), "dtype": "float64"}],
            "lookahead": 3,
        }
    )
    with Engine(config) as engine:
        yield engine


def test_a_text_that_no_server_can_hold_is_refused_at_once(engine: Engine) -> None:
    assert engine.target.max_context == CONTEXT
    assert engine.max_model_len == ROOM
    with pytest.raises(RequestError, match=f"the context holds {ROOM} tokens") as caught:
        engine.generate(PROMPT, SamplingParams(max_tokens=ROOM))
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("algorithm", ["dsi", "si"])
def test_beyond_a_drafters_context_the_text_goes_on_without_it(
    engine: Engine, algorithm: str
) -> None:
    params = SamplingParams(max_tokens=ROOM - len(PROMPT), ignore_eos=True)
    plain = engine.generate(PROMPT, params, Decoding("non-si"))
    drafted = engine.generate(PROMPT, params, Decoding(algorithm, 3))
    assert drafted.tokens == plain.tokens
    assert drafted.stats.rejected_tokens == 0
    # Whether drafts come before the target needs them is a matter of time.
    assert 0 < drafted.stats.drafted_tokens < DRAFTER_CONTEXT
    assert drafted.stats.accepted_tokens <= DRAFTER_CONTEXT - len(PROMPT)
    longer = engine.generate(drafted.tokens[:DRAFTER_CONTEXT], SamplingParams(max_tokens=4))
    assert longer.stats.drafted_tokens == 0


def test_requests_that_do_not_fit_together_wait_for_each_other(engine: Engine) -> None:
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    prompts = [[1 + number, *PROMPT] for number in range(6)]
    assert all(max(prompt) < VOCAB for prompt in prompts)
    alone = [engine.generate(prompt, params, Decoding("non-si")).tokens for prompt in prompts]

    async def text(prompt: list[int]) -> tuple[int, ...]:
        chunks = [chunk async for chunk in engine.stream(prompt, params)]
        return tuple(token for chunk in chunks for token in chunk.tokens)

    async def together() -> list[tuple[int, ...]]:
        return await asyncio.gather(*map(text, prompts))

    assert asyncio.run(together()) == alone
