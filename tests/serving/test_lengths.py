"""What is kept for an output is what is likely, not all that it may become."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.serving.admission.lengths import OutputLengths

from .asgi import until
from .test_overload import Site, run

CONTEXT = 10_000


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=300), st.integers(1, 10_000))
def test_most_outputs_are_no_longer_than_what_is_likely(seen: list[int], most: int) -> None:
    lengths = OutputLengths()
    for length in seen:
        lengths.note(length)
    likely = lengths.likely(most)
    lately = seen[-256:]
    assert sum(length <= likely for length in lately) >= 0.9 * len(lately) or likely == most
    assert likely in (most, *lately)


def test_before_the_first_output_one_is_taken_for_short() -> None:
    assert OutputLengths().likely(8) == 8
    assert OutputLengths().likely(CONTEXT) < CONTEXT / 10


def test_chats_without_max_tokens_do_not_keep_each_other_out() -> None:
    site = Site()
    engine = site.engine
    engine.max_model_len = engine.kv_capacity = CONTEXT

    async def ask(number: int) -> int:
        body = {
            "model": "valve",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": None if number % 2 else CONTEXT - 100,
        }
        async with site.client() as client:
            return (await client.post("/v1/chat/completions", json=body)).status_code

    async def scenario() -> list[int]:
        tasks = [asyncio.create_task(ask(number)) for number in range(5)]
        await until(lambda: engine.running == 5)
        for task in tasks:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    run(site, scenario())
    assert engine.peak == 5
