"""An end to every request."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.middleware.deadline import Deadline, within


class Source:
    """Yields some items, then hangs or raises; says whether it was closed."""

    def __init__(self, items: int, then: Exception | None = None, hang: bool = False) -> None:
        self.items, self.then, self.hang, self.closed = items, then, hang, False

    async def stream(self) -> AsyncGenerator[int]:
        try:
            for item in range(self.items):
                yield item
            if self.then is not None:
                raise self.then
            if self.hang:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def collect(source: Source, seconds: float) -> list[int]:
    return [item async for item in within(Deadline.after(seconds), source.stream())]


def test_what_is_in_time_passes() -> None:
    source = Source(3)
    assert asyncio.run(collect(source, 60)) == [0, 1, 2]
    assert source.closed


def test_what_hangs_is_504_and_closed() -> None:
    source = Source(3, hang=True)
    with pytest.raises(ApiError) as caught:
        asyncio.run(collect(source, 0.01))
    assert (caught.value.status, caught.value.code) == (504, "timeout")
    assert source.closed


def test_other_errors_pass_also_a_timeout_of_the_source() -> None:
    source = Source(1, then=TimeoutError("of something else"))
    with pytest.raises(TimeoutError, match="something else"):
        asyncio.run(collect(source, 60))
    assert source.closed


def test_each_item_may_be_read_by_another_task() -> None:
    async def read() -> list[int]:
        stream = within(Deadline.after(60), Source(2).stream())
        return [await asyncio.create_task(anext(stream)) for _ in range(2)]  # type: ignore[arg-type]

    assert asyncio.run(read()) == [0, 1]


def test_closing_closes_the_source() -> None:
    async def leave(source: Source) -> None:
        stream = within(Deadline.after(60), source.stream())
        await anext(stream)
        await stream.aclose()

    source = Source(2)
    asyncio.run(leave(source))
    assert source.closed
