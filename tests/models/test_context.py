"""Nothing that a model server does for a forward, besides the forward, grows with the context."""

import threading
from collections.abc import Callable
from functools import partial

import pytest
import torch

from dsi_ray.config import Simulation
from dsi_ray.core.messages import Mode, Role, ServerId, Task
from dsi_ray.core.path import CHUNK, Path
from dsi_ray.core.server.scheduler import ScheduledRequest, ScheduledResult, Scheduler
from dsi_ray.models.base import Extension, Sampling, extend_one
from dsi_ray.models.forward.packing import pack
from dsi_ray.models.guided.walker import Walker
from dsi_ray.models.kv.kv_cache import KVCache
from dsi_ray.models.lookup import LookupModel
from dsi_ray.models.sampling import Occurrences, choose
from dsi_ray.models.simulated import SimulatedModel
from dsi_ray.params import Guide, SamplingParams
from tests.core.counting import allocated, operations
from tests.models.guided.pieces import COMPILER, ENDS, PIECES

LENGTHS = 64, 8192, 65536
SERVER = ServerId(Role.TARGET, 0)
CPU = torch.device("cpu")
GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
DRAFT = (1, 2, 3, 4, 5)


def prompt(length: int, name: int = 0) -> Path:
    """A text that no other request begins with."""
    return Path.of([name, *(i % 9 for i in range(length - 1))])


class Server:
    """A model server without a model, whose own token is always 7."""

    def __init__(self, sessions: int, length: int) -> None:
        """Computes the prompts in turns, so that no session's blocks lie together."""
        self._batch = Scheduler(length)
        self._cache = KVCache(sessions * (length // CHUNK + 8))
        self._paths = [prompt(length, name) for name in range(sessions)]
        self._ids = 0
        for end in range(length // 4, length + 1, length // 4):
            for name, path in enumerate(self._paths):
                assert self._cache.reserve(str(name), path.upto(end), end + 1, "") is not None
                self._cache.commit(str(name), path.upto(end))
        for name, path in enumerate(self._paths):
            self.submit(name, path, length)

    def submit(self, request: int, path: Path, start: int) -> None:
        """Sends a task that goes on alone."""
        self._ids += 1
        task = Task(self._ids, str(request), SERVER, path, start, limit=10**9)
        self._batch.submit(task, Mode.REPLACE)

    def verify(self) -> None:
        """One forward that accepts some of the drafts of every request."""
        for request, path in enumerate(self._paths):
            self.submit(request, path.extended((7, 7, *DRAFT)), len(path) + 1)
        self.forward()

    def forward(self) -> None:
        """One forward, but for the model's own part."""
        parts = self._batch.compose(self._cache.cached)
        names = [part.request for part in parts]
        segments = []
        for part in parts:
            segment = self._cache.reserve(part.request, part.tokens, part.start, names)
            assert segment is not None
            segments.append(segment)
        pool = self._cache.pool
        pack(segments, pool.recycled, pool.size, threading.Event(), CPU)
        pool.recycled.clear()
        for part in parts:
            self._cache.commit(part.request, part.tokens)
        self._batch.finish({part.request: _sevens(part) for part in parts})


def _sevens(part: ScheduledRequest) -> ScheduledResult:
    return ScheduledResult([7] * (len(part.tokens) + 1 - part.start))


@pytest.mark.parametrize("sessions", [1, 3])
def test_the_books_of_a_server(sessions: int) -> None:
    """Of a decode step, and of a verification that rejects drafts."""
    costs = []
    for length in LENGTHS:
        server = Server(sessions, length)
        server.forward()
        costs.append((operations(server.forward), operations(server.verify)))
    for counts in zip(*costs, strict=True):
        assert max(counts) < 1.1 * min(counts)


@pytest.mark.parametrize("work", [Server.forward, Server.verify])
def test_no_book_is_copied(work: Callable[[Server], None]) -> None:
    server = Server(1, max(LENGTHS))
    for _ in range(2):
        server.forward()
    # A number for every block would be 32 KiB.
    assert allocated(lambda: work(server)) < 16 * 1024


def lookup(length: int) -> Callable[[Path], object]:
    """Prompt lookup."""
    model = LookupModel(3)
    return lambda path: extend_one(model, Extension("a", path, len(path), GREEDY))


def simulated(length: int) -> Callable[[Path], object]:
    """A timed wait, here for no time."""
    model = SimulatedModel(Simulation(tpot_ms=0.001), Role.TARGET)
    return lambda path: extend_one(model, Extension("a", path, len(path), GREEDY))


def guided(length: int) -> Callable[[Path], object]:
    """A guide after a long output."""
    walker = Walker(COMPILER.matcher(Guide("regex", "[abc]*")), ENDS, len(PIECES))
    return lambda path: walker.allowed(path, 2)


def penalised(length: int) -> Callable[[Path], object]:
    """Penalties on the prompt and on a long output."""
    params = SamplingParams(repetition_penalty=1.1, presence_penalty=0.1)
    sampling, occurrences = Sampling(params, length // 2), Occurrences()
    return lambda path: choose(torch.zeros(3, 9), path, sampling, occurrences=occurrences)


def rejecting(length: int) -> Callable[[Path], object]:
    """The noise of rejection sampling, which depends on the whole path."""
    sampling = Sampling(SamplingParams(temperature=1), 1, rejection=True)
    return lambda path: choose(torch.zeros(3, 9), path, sampling)


@pytest.mark.parametrize("make", [lookup, simulated, guided, penalised, rejecting])
def test_what_a_session_remembers_is_not_gone_through(
    make: Callable[[int], Callable[[Path], object]],
) -> None:
    costs = []
    for length in LENGTHS:
        path, extend = Path.of(2 + i % 3 for i in range(length)), make(length)
        steps = [path.extended(new) for new in ((2, 3), (2, 4, 4), (2, 4, 4, 3), (3, 3))]
        for step in (path, *steps):
            extend(step)
        costs.append(operations(partial(list, map(extend, steps))))
        assert allocated(partial(list, map(extend, steps))) < 64 * 1024
    # What is found in a tree, or in a sorted list, costs a logarithm.
    assert max(costs) < 1.6 * min(costs)
