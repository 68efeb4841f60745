"""Poison on real Ray: a request that kills the servers that compute it fails, and fails alone."""

import asyncio

from dsi_ray.core.group.poison import CONVICTED
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.errors import EngineError

from .fatal import FatalParams
from .test_requests import is_idle, new_engine, wait_until

PROMPTS = [[1 + i, 2, 3] for i in range(4)]
TOKENS = 60


def test_a_request_that_kills_servers_fails_alone(ray_cluster: None) -> None:
    params = SamplingParams(max_tokens=TOKENS, ignore_eos=True)

    # Lanes carry no code, which this poison is.
    config = {"target": "demo", "drafters": ["lookup"], "sp_degree": 2, "transport": "calls"}
    with new_engine(**config) as engine:

        async def text(prompt: list[int], params: SamplingParams) -> tuple[int, ...]:
            chunks = [chunk async for chunk in engine.stream(prompt, params)]
            return tuple(token for chunk in chunks for token in chunk.tokens)

        async def together() -> list[tuple[int, ...] | BaseException]:
            innocents = [text(prompt, params) for prompt in PROMPTS]
            poison = text([9], FatalParams(max_tokens=TOKENS))
            return await asyncio.gather(*innocents, poison, return_exceptions=True)

        alone = [engine.generate(prompt, params).tokens for prompt in PROMPTS]
        *texts, failure = asyncio.run(together())
        assert texts == alone
        assert isinstance(failure, EngineError)
        assert str(failure) == CONVICTED
        status = wait_until(engine, lambda status: is_idle(status) and not status["lost"])
        assert status["targets"]["alive"] == 2
