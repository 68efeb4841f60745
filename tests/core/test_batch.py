"""ServerBatch: every request gets on in every forward, and no prompt holds the others up."""

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.messages import Ended, EndReason, Mode, Output, Role, ServerId, Task
from dsi_ray.core.path import Path
from dsi_ray.core.server.scheduler import ScheduledRequest, ScheduledResult, Scheduler

SERVER = ServerId(Role.TARGET, 0)


class Cache:
    """What a model would have cached."""

    def __init__(self) -> None:
        self.held: dict[str, Path] = {}

    def __call__(self, request: str, tokens: Path) -> int:
        return tokens.common(self.held.get(request, Path()))

    def compute(self, batch: Scheduler, parts: list[ScheduledRequest]) -> list:
        """One forward: every own token is 7."""
        self.held |= {part.request: part.tokens for part in parts}
        results = {}
        for part in parts:
            wanted = len(part.tokens) + 1 - part.start
            results[part.request] = ScheduledResult([7] * wanted)
        return batch.finish(results, seconds=1.0)


def task(number: int, tokens: int, limit: int = 0) -> Task:
    """A task of request ``number`` that asks for the token after ``tokens`` others."""
    return Task(number, str(number), SERVER, Path.of(range(tokens)), tokens, limit)


@given(
    chunk=st.integers(1, 20),
    prompts=st.lists(st.integers(2, 60), min_size=1, max_size=6),
    decoding=st.integers(0, 4),
)
def test_prompts_are_cut_and_decoding_never_waits(
    chunk: int, prompts: list[int], decoding: int
) -> None:
    batch, cache = Scheduler(chunk), Cache()
    for number in range(decoding):
        batch.submit(task(number, 1, limit=10_000), Mode.REPLACE)
    while any(len(cache.held.get(str(i), ())) < 2 for i in range(decoding)):
        cache.compute(batch, batch.compose(cache))
    for number, length in enumerate(prompts, start=decoding):
        batch.submit(task(number, length), Mode.REPLACE)
    waiting = {str(number) for number in range(decoding, decoding + len(prompts))}
    forwards = 0
    while waiting:
        parts = batch.compose(cache)
        computed = {part.request: part.computed for part in parts}
        assert all(computed[str(number)] == 1 for number in range(decoding))
        # The last token of a prompt is decoding: with it comes the first of the text.
        prefilled = sum(part.computed for part in parts if part.known < part.step.start - 1)
        assert prefilled <= max(chunk, 1)
        assert any(part.request in waiting for part in parts)
        waiting -= {
            str(event.task)
            for event in cache.compute(batch, parts)
            if isinstance(event, Output) and not event.goes_on or event.task >= decoding
        }
        forwards += 1
        assert forwards <= sum(prompts) + len(prompts)


def test_a_long_prompt_counts_the_time_of_all_its_forwards() -> None:
    batch, cache = Scheduler(4), Cache()
    batch.submit(task(0, 10), Mode.REPLACE)
    events: list = []
    while not events:
        events = cache.compute(batch, batch.compose(cache))
    assert [event.seconds for event in events] == [3.0]


def test_a_forward_is_of_no_use_only_once_nobody_wants_it() -> None:
    batch, cache = Scheduler(100), Cache()
    for number in range(2):
        batch.submit(task(number, 5, limit=100), Mode.REPLACE)
    parts = batch.compose(cache)
    batch.cancel("0", 0)
    assert not batch.interrupted
    batch.cancel("1", 1)
    assert batch.interrupted
    batch.stopped()
    assert len(parts) == 2
    assert not batch.compose(cache)


def test_a_prompt_that_is_cancelled_between_two_chunks_is_left() -> None:
    batch, cache = Scheduler(4), Cache()
    batch.submit(task(0, 10), Mode.REPLACE)
    cache.compute(batch, batch.compose(cache))
    assert batch.cancel("0", 0) == [Ended(0, EndReason.CANCELLED)]
    assert not batch.compose(cache)
    assert not batch.busy


def test_an_error_is_its_own_requests() -> None:
    batch, cache = Scheduler(100), Cache()
    for number in range(2):
        batch.submit(task(number, 5), Mode.REPLACE)
    batch.compose(cache)
    events = batch.finish({"0": ScheduledResult(error="bad"), "1": ScheduledResult([7])})
    assert events == [Ended(0, EndReason.FAILED, "bad"), Output(1, 5, (7,), goes_on=False)]


def test_what_is_released_during_a_forward_is_not_heard_of_again() -> None:
    batch, cache = Scheduler(100), Cache()
    for number in range(2):
        batch.submit(task(number, 5), Mode.REPLACE)
    parts = batch.compose(cache)
    batch.cancel("0", 0)
    batch.release("0")
    events = batch.finish({part.request: ScheduledResult([7]) for part in parts})
    assert [event.task for event in events] == [1]


def test_who_came_first_has_the_first_claim_on_memory() -> None:
    batch, cache = Scheduler(4), Cache()
    batch.submit(task(0, 1, limit=100), Mode.REPLACE)
    batch.submit(task(1, 30), Mode.REPLACE)
    batch.submit(task(2, 1, limit=100), Mode.REPLACE)
    for _ in range(10):
        parts = batch.compose(cache)
        assert [part.request for part in parts] == sorted(part.request for part in parts)
        cache.compute(batch, parts)


def test_a_part_without_room_is_asked_for_again() -> None:
    batch, cache = Scheduler(100), Cache()
    for number in range(2):
        batch.submit(task(number, 5), Mode.REPLACE)
    first = batch.compose(cache)
    events = batch.finish({"0": ScheduledResult([7]), "1": ScheduledResult(postponed=True)})
    assert [event.task for event in events] == [0]
    assert batch.compose(cache) == first[1:]
    assert batch.finish({"1": ScheduledResult([7])}) == [Output(1, 5, (7,), goes_on=False)]
