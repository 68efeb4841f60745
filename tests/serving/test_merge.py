"""Several streams as one."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from dsi_ray.serving.openai.merge import merge


class Source:
    """Yields ``items`` and says whether it was closed."""

    def __init__(self, items: list[int], *, then: Exception | None = None, hang: bool = False):
        self.items, self.then, self.hang, self.closed = items, then, hang, False

    async def stream(self) -> AsyncGenerator[int]:
        try:
            for item in self.items:
                await asyncio.sleep(0)
                yield item
            if self.then is not None:
                raise self.then
            if self.hang:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def collect(sources: list[Source], limit: int = 100) -> list[tuple[int, int]]:
    merged = merge([source.stream() for source in sources])
    entries: list[tuple[int, int]] = []
    try:
        async for entry in merged:
            entries.append(entry)
            if len(entries) == limit:
                break
    finally:
        await merged.aclose()
    return entries


@pytest.mark.parametrize("lists", [[[1, 2, 3]], [[1, 2, 3], [4], []], [[]]])
def test_all_items_in_the_order_of_their_stream(lists: list[list[int]]) -> None:
    sources = [Source(items) for items in lists]
    entries = asyncio.run(collect(sources))
    for index, items in enumerate(lists):
        assert [item for source, item in entries if source == index] == items
    assert len(entries) == sum(map(len, lists))


@pytest.mark.parametrize("others", [0, 1, 3])
def test_an_error_closes_the_others(others: int) -> None:
    sources = [Source([1], then=KeyError("x")), *(Source([2], hang=True) for _ in range(others))]
    with pytest.raises(KeyError):
        asyncio.run(collect(sources))
    assert all(source.closed for source in sources)


@pytest.mark.parametrize("count", [1, 3])
def test_closing_closes_all(count: int) -> None:
    sources = [Source([1], hang=True) for _ in range(count)]
    asyncio.run(collect(sources, limit=count))
    assert all(source.closed for source in sources)
