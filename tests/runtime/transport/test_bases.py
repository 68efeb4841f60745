"""Paths on a lane arrive as they were, whatever the history, and cost what is new in them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.messages import Mode, Role, ServerId, Task
from dsi_ray.core.path import Path
from dsi_ray.models.base import Sampling
from dsi_ray.params import Guide, SamplingParams
from dsi_ray.runtime.transport.lanes.bases import ReceivedPaths, SentPaths
from dsi_ray.runtime.transport.lanes.frames import (
    Begin,
    FromCoordinator,
    FromServer,
    ToCoordinator,
    ToServer,
    WorkFrame,
    pack,
    unpack,
    unpack_ids,
    unpacker,
)
from dsi_ray.runtime.transport.lanes.lane import FrameError

SERVER = ServerId(Role.TARGET, 1)
PARAMS = SamplingParams(
    temperature=0.5, logit_bias={3: 1.0}, stop=("a",), guide=Guide.json_object(), seed=-3
)
ids = st.integers(0, 2**31 - 1)
paths = st.lists(ids, min_size=1, max_size=80).map(tuple)


def sampling(prompt: int = 1) -> Sampling:
    return Sampling(PARAMS, prompt, frozenset({1, 2}), seed=-(2**63))


def travelled(begin: Begin) -> Begin:
    frame = unpack(unpacker(ToServer), pack(WorkFrame([begin], [("r", 1)], ["q"])))
    assert isinstance(frame, WorkFrame)
    return frame.starts[0]


def task(number: int, request: str, tokens: Path) -> Task:
    stops = frozenset({7, number})
    return Task(number, request, SERVER, tokens, max(1, len(tokens) - 1), 99, stops, 2, (b"", b"x"))


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 100), st.lists(ids, max_size=20)),
    min_size=1,
    max_size=20,
)


@given(paths, steps, st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
def test_every_task_arrives_as_it_was_sent_or_is_asked_for_and_comes_whole(
    prompt: tuple[int, ...],
    history: list[tuple[str, int, list[int]]],
    released: set[int],
    forgotten: set[int],
) -> None:
    sent, received = SentPaths(), ReceivedPaths(SERVER)
    path = Path.of(prompt)
    for number, (request, kept, new) in enumerate(history):
        if number in released:
            sent.forget(request)
            received.forget(request)
        if number in forgotten:
            received.forget(request)
        path = path.upto(max(1, min(kept, len(path)))).extended(new)
        start = task(number, request, path), Mode.QUEUE, sampling()
        got = received.task(travelled(sent.begin(*start)))
        if got is None:
            assert forgotten, "a server that has forgotten nothing has every base"
            sent.forget(request)
            got = received.task(travelled(sent.begin(*start)))
        assert got == start


def test_a_base_that_is_another_is_noticed() -> None:
    sent, received = SentPaths(), ReceivedPaths(SERVER)
    base, other = Path.of(range(40)), Path.of(range(1, 41))
    received.task(sent.begin(task(0, "r", base), Mode.QUEUE, sampling()))
    wrong = SentPaths()
    wrong.begin(task(0, "r", other), Mode.QUEUE, sampling())
    begin = wrong.begin(task(1, "r", other.extended([5])), Mode.QUEUE, sampling())
    assert received.task(begin) is None


@pytest.mark.parametrize("drafts", [1, 5])
def test_a_task_is_as_large_at_any_length_of_the_context(drafts: int) -> None:
    def size(length: int) -> int:
        sent = SentPaths()
        path = Path.of(itertools.islice(itertools.cycle(range(10_000)), length))
        sent.begin(task(1, "r", path), Mode.QUEUE, sampling())
        later = task(1, "r", path.upto(length - 2).extended(range(drafts)))
        return len(pack(sent.begin(later, Mode.REPLACE, sampling())))

    # Positions take a few bytes more.
    assert size(100_000) <= size(16) + 20 < 160


@given(st.binary(max_size=200))
@pytest.mark.parametrize("kind", [ToServer, FromServer, ToCoordinator, FromCoordinator])
def test_garbage_is_told_from_frames(kind: object, data: bytes) -> None:
    try:
        frame = unpack(unpacker(kind), data)
    except FrameError:
        return
    assert unpack(unpacker(kind), pack(frame)) == frame


@given(st.binary(max_size=9).filter(lambda data: len(data) % 4))
def test_bytes_that_are_not_whole_ids_are_no_frame(data: bytes) -> None:
    with pytest.raises(FrameError):
        unpack_ids(data)
