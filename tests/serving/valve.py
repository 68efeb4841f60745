"""An engine without servers or Ray, for tests of what surrounds one."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from dsi_ray.config import EngineConfig
from dsi_ray.core.messages import FinishReason
from dsi_ray.models.base import ModelInfo
from dsi_ray.models.text.tokenizer import SimulatedTokenizer
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.prompts import Prompts
from dsi_ray.runtime.client.request_check import check_request
from dsi_ray.runtime.request import Chunk, Decoding, RequestStats

VOCABULARY = 100


class ValveEngine:
    """Generations that wait until the valve is open, and then take a turn of the loop a token.

    Attributes:
        valve: Whether generations go on.
        running: Generations now.
        peak: Most of them at once.
    """

    def __init__(self) -> None:
        self.config = EngineConfig.model_validate({"target": "simulated:tpot_ms=1"})
        self.tokenizer = SimulatedTokenizer(VOCABULARY)
        self.target = ModelInfo("valve", VOCABULARY, 64, (), 0, "none", "none", has_logits=False)
        self.max_model_len = self.target.max_context
        self.prompts = Prompts(self.tokenizer, self.max_model_len)
        self.kv_capacity = sys.maxsize
        self.sampling_defaults: dict[str, Any] = {}
        self.valve = asyncio.Event()
        self.running = self.peak = 0

    def check(
        self, prompt: Sequence[int], params: SamplingParams, max_tokens: int | None = None
    ) -> None:
        """As every engine does."""
        check_request(prompt, params, self.target, self.max_model_len, max_tokens)

    async def status(self) -> dict[str, Any]:
        """Always well."""
        return {"healthy": True, "groups": []}

    async def stream(
        self, prompt: Sequence[int], params: SamplingParams, decoding: Decoding, request_id: str
    ) -> AsyncGenerator[Chunk]:
        """Counts up from the last token of the prompt."""
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await self.valve.wait()
            for index in range(1, params.max_tokens):
                await asyncio.sleep(0)
                yield self._chunk(prompt, index)
            yield self._chunk(prompt, params.max_tokens, FinishReason.LENGTH)
        finally:
            self.running -= 1

    def text(self, prompt: Sequence[int], max_tokens: int) -> str:
        """The whole text after a prompt."""
        return "".join(self._chunk(prompt, index).text for index in range(1, max_tokens + 1))

    def _chunk(
        self, prompt: Sequence[int], index: int, finish_reason: FinishReason | None = None
    ) -> Chunk:
        token = (prompt[-1] + index) % VOCABULARY
        stats = RequestStats(len(prompt), index, 1.0, 1.0, 1.0, 0, 0, 0, index, 0, 0, 0)
        text = self.tokenizer.decode([token])
        return Chunk(text, (token,), finish_reason, None if finish_reason is None else stats)
