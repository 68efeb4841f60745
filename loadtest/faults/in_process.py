"""An engine in this process, on Ray nodes of this machine, which may die as well."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from dsi_ray.config import EngineConfig
from dsi_ray.experiments.processes import parents
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.errors import EngineError, GroupLost
from dsi_ray.runtime.ray.many_nodes import many_nodes
from loadtest.faults.chaos import Group, Victim, processes, prompt

CONFIG = EngineConfig.model_validate(
    {
        "target": "simulated:tpot_ms=20",
        "drafters": ["simulated:tpot_ms=4,acceptance_rate=0.8"],
        "sp_degree": 3,
        "placement_strategy": "SPREAD",
    }
)
_NODES = [{"num_cpus": 1}] * 3
_WAIT_S = 1.0


class EngineService:
    """An engine; requests of a lost group are tried again."""

    name = "the engine"

    def __init__(self, engine: Engine, retries: int = 0) -> None:
        self._engine = engine
        self._retries = retries

    async def text(self, number: int, tokens: int) -> tuple[tuple[int, ...] | None, bool]:
        """The tokens of a request, and whether it was tried again."""
        params = SamplingParams(max_tokens=tokens, ignore_eos=True)
        for attempt in range(self._retries + 1):
            try:
                chunks = [chunk async for chunk in self._engine.stream(prompt(number), params)]
            except GroupLost:
                await asyncio.sleep(_WAIT_S)
            except EngineError:
                break
            else:
                return tuple(token for chunk in chunks for token in chunk.tokens), attempt > 0
        return None, True

    async def groups(self) -> Sequence[Group]:
        """The status of each group."""
        groups: Sequence[Group] = (await self._engine.status())["groups"]
        return groups

    async def victims(self) -> Sequence[Victim]:
        """Its processes, and the nodes that have servers but no coordinator."""
        groups = await self.groups()
        return [*processes(groups), *nodes_elsewhere(groups)]


@contextlib.contextmanager
def engine_service(retries: int) -> Iterator[EngineService]:
    """An engine of timed waits, whose servers are spread over three Ray nodes."""
    with many_nodes(*_NODES), Engine(CONFIG) as engine:
        yield EngineService(engine, retries)


def nodes_elsewhere(groups: Sequence[Group]) -> list[Victim]:
    """The nodes with servers on which no coordinator is: without that there is no group."""
    found = processes(groups)
    homes = {_node_of(pid) for v in found if v.role == "coordinator" for pid in v.pids}
    nodes = {_node_of(pid) for victim in found for pid in victim.pids}
    return [node(raylet) for raylet in nodes - homes if raylet is not None]


def node(raylet: int) -> Victim:
    """All processes of the Ray node to which this raylet belongs: a power failure."""
    return Victim("node", (raylet, *(pid for pid, up in parents().items() if up == raylet)))


def node_of(pid: int) -> Victim:
    """All processes of the Ray node on which a worker process is."""
    raylet = _node_of(pid)
    if raylet is None:
        raise ProcessLookupError(pid)
    return node(raylet)


def _node_of(pid: int) -> int | None:
    """The raylet of a worker process: its parent. None if the process has ended."""
    return parents().get(pid)
