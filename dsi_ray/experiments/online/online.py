"""The paper's online experiment: real orchestration on Ray, forwards that are timed waits."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from dsi_ray.config import Algorithm, EngineConfig, ModelConfig
from dsi_ray.experiments.processes import stats
from dsi_ray.experiments.virtual.pair import Pair, prompt
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.ray.cluster import connect, disconnect
from dsi_ray.runtime.request import Decoding

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """Some texts on real actors.

    Attributes:
        seconds: Of each text.
        messages_per_token: What crossed a process.
        cpu_ms_per_token: CPU time of all processes: the waits take none, so that this is what
            orchestration takes.
    """

    seconds: tuple[float, ...]
    messages_per_token: float
    cpu_ms_per_token: float

    @property
    def median(self) -> float:
        """Seconds of the median text."""
        return median(self.seconds)

    @property
    def mean(self) -> float:
        """Seconds of a text in the mean."""
        return sum(self.seconds) / len(self.seconds)


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """One Ray for many engines: starting it takes longer than a row."""
    started = connect(None)
    try:
        yield
    finally:
        if started:
            disconnect()


def engine(pair: Pair, sp_degree: int) -> Engine:
    """The pair on real actors; the drafter lives in the coordinator's, a message less each way."""
    drafter = ModelConfig(model="simulated", simulation=pair.drafter, own_process=False)
    return Engine(
        EngineConfig(
            target=ModelConfig(model="simulated", simulation=pair.target),
            drafters=(drafter,),
            sp_degree=sp_degree,
        )
    )


def measure(
    running: Engine,
    pair: Pair,
    decoding: Decoding,
    traces: int,
    progress: Callable[[], None] = lambda: None,
) -> Measured:
    """Decodes the first ``traces`` texts; one more before them warms everything up."""
    params = SamplingParams(max_tokens=pair.tokens, ignore_eos=True)
    running.generate(prompt(traces), params, decoding)
    cpu = _cpu_seconds()
    all_stats = []
    for trace in range(traces):
        all_stats.append(running.generate(prompt(trace), params, decoding).stats)
        progress()
    tokens = traces * pair.tokens
    return Measured(
        tuple(stats.seconds for stats in all_stats),
        sum(stats.messages for stats in all_stats) / tokens,
        (_cpu_seconds() - cpu) * 1000 / tokens,
    )


def dsi(sp_degree: int) -> Decoding:
    """DSI as configured by default."""
    return Decoding(Algorithm.DSI, sp_degree=sp_degree)


def _cpu_seconds() -> float:
    """CPU time so far of this process and all that it started, Ray's own among them."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for pid, fields in stats():
        parents[pid] = int(fields[1])
        seconds[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
    return sum(taken for pid, taken in seconds.items() if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
