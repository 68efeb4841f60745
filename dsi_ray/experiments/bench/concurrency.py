"""The same requests with ever more of them at once: what a group makes of a crowd."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.request import Chunk, Decoding, RequestStats


@dataclass(frozen=True, slots=True)
class CrowdWork:
    """One request."""

    prompt: Sequence[int]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What it got."""

    tokens: tuple[int, ...]
    stats: RequestStats


@dataclass(frozen=True, slots=True)
class ConcurrencyRow:
    """All requests, so many at once.

    Attributes:
        concurrency: Requests in flight.
        tokens_per_second: Of all together.
        speedup: Times the tokens a second of the first row.
        tpot_ms: Mean over the requests.
        messages_per_token: What crossed a process, for each token.
        forwards_per_token: Parts of target forwards for each token: below 1 where drafts help.
        acceptance_rate: Share of drafted positions where the target agreed; None without drafts.
        identical_tokens: Whether every request got what it got in the first row.
    """

    concurrency: int
    tokens_per_second: float
    speedup: float
    tpot_ms: float
    messages_per_token: float
    forwards_per_token: float
    acceptance_rate: float | None
    identical_tokens: bool


def mixed(prompts: Sequence[Sequence[int]], max_tokens: int, seed: int = 0) -> list[CrowdWork]:
    """Requests of mixed lengths: parts of prompts, and between a quarter and all of the tokens."""
    dice = random.Random(seed)
    return [
        CrowdWork(
            prompt[-dice.randint(1, len(prompt)) :],
            dice.randint(-(-max_tokens // 4), max_tokens),
        )
        for prompt in prompts
    ]


def measure(
    engine: Engine,
    works: Sequence[CrowdWork],
    concurrencies: Sequence[int],
    decoding: Decoding,
    step: Callable[[], None] = lambda: None,
) -> list[ConcurrencyRow]:
    """Runs all of ``works`` once for each concurrency; calls ``step`` after each request."""
    asyncio.run(_together(engine, works[:2], 1, decoding, lambda: None))  # warms up
    rows: list[ConcurrencyRow] = []
    reference: list[Answer] = []
    for concurrency in concurrencies:
        started = time.perf_counter()
        answers = asyncio.run(_together(engine, works, concurrency, decoding, step))
        seconds = time.perf_counter() - started
        reference = reference or answers
        first = rows[0].tokens_per_second if rows else None
        rows.append(_row(concurrency, answers, reference, seconds, first))
    return rows


async def _together(
    engine: Engine,
    works: Sequence[CrowdWork],
    concurrency: int,
    decoding: Decoding,
    step: Callable[[], None],
) -> list[Answer]:
    room = asyncio.Semaphore(concurrency)

    async def one(work: CrowdWork) -> Answer:
        params = SamplingParams(max_tokens=work.max_tokens, ignore_eos=True)
        chunks: list[Chunk] = []
        async with room, aclosing(engine.stream(work.prompt, params, decoding)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
        stats = chunks[-1].stats
        assert stats is not None, "the last chunk has the figures"
        step()
        return Answer(tuple(token for chunk in chunks for token in chunk.tokens), stats)

    return await asyncio.gather(*map(one, works))


def _row(
    concurrency: int,
    answers: Sequence[Answer],
    reference: Sequence[Answer],
    seconds: float,
    first: float | None,
) -> ConcurrencyRow:
    stats = [answer.stats for answer in answers]
    tokens = sum(s.completion_tokens for s in stats)
    accepted = sum(s.accepted_tokens for s in stats)
    judged = accepted + sum(s.rejected_tokens for s in stats)
    rate = tokens / seconds
    return ConcurrencyRow(
        concurrency=concurrency,
        tokens_per_second=rate,
        speedup=rate / (first or rate),
        tpot_ms=sum(s.tpot_ms for s in stats) / len(stats),
        messages_per_token=sum(s.messages for s in stats) / tokens,
        forwards_per_token=sum(s.target_forwards for s in stats) / tokens,
        acceptance_rate=accepted / judged if judged else None,
        identical_tokens=all(
            ours.tokens == theirs.tokens for ours, theirs in zip(answers, reference, strict=True)
        ),
    )
