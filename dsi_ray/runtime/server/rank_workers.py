"""A model server on several devices: an actor a device, of which the others follow the first."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ray.actor import ActorHandle

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import ServerId
from dsi_ray.models.load import follow
from dsi_ray.runtime.process.fatal import die

if TYPE_CHECKING:
    from dsi_ray.models.forward.parallel import RankLeader, Rendezvous

T = TypeVar("T")


class RankWorker:
    """Computes one shard of a server's model.

    Args:
        config: The model and its resources.
        server: Whose shard.
        group: Which of several groups it is in, for names.
        rank: Its own, from 1 on.
    """

    def __init__(self, config: ModelConfig, server: ServerId, group: int, rank: int) -> None:
        self._config = config
        self._server = server
        self._group = group
        self._rank = rank

    def __repr__(self) -> str:
        return f"Follower(group {self._group}, {self._server}, rank {self._rank})"

    def follow(self, meeting: "Rendezvous") -> None:
        """Loads the shard and computes; returns when the server is gone.

        Raises:
            ModelError: The model cannot be used.
        """
        follow(self._config, self._server.role, self._rank, meeting)


class RankWorkers:
    """The followers of one server, which lives and dies with them."""

    def __init__(self, actors: Sequence["ActorHandle[RankWorker]"]) -> None:
        self._actors: Sequence[Any] = actors

    def begin(self) -> "RankLeader":
        """Makes them load their shards, beside the server itself."""
        # torch takes seconds to import; other servers may not need it.
        from dsi_ray.models.forward.parallel import RankLeader

        leader = RankLeader(1 + len(self._actors))
        calls = [actor.follow.remote(leader.meeting) for actor in self._actors]
        self._ends = [asyncio.ensure_future(call) for call in calls]
        return leader

    async def beside(self, loading: Awaitable[T]) -> T:
        """Waits for the server's own shard; from then on the death of a follower is the server's.

        Raises:
            ModelError: A follower cannot use the model.
        """
        loaded = asyncio.ensure_future(loading)
        await asyncio.wait([loaded, *self._ends], return_when=asyncio.FIRST_COMPLETED)
        for end in self._ends:
            if end.done():
                await end
        shard = await loaded
        for end in self._ends:
            end.add_done_callback(lambda _: die("another rank has ended"))
        return shard
