"""Tensor parallelism: one model on several devices of a machine, a process each.

Rank 0 leads: it alone keeps the books of the KV cache and chooses tokens. The others follow: each
holds its shard of the weights, keys and values, and repeats every forward of rank 0. Within a
forward torch.distributed brings the shards together; what to compute, and at which layer to stop,
goes over a socket: it waits for no device, and it breaks when either end does.
"""

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener
from typing import NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from dsi_ray.models.base import ForwardCancelled
from dsi_ray.models.forward.packed_model import PackedStep
from dsi_ray.models.forward.packing import StopSignal

_GO, _STOP = b"\0", b"\1"
_HOST = "127.0.0.1"
_SKEW = timedelta(hours=2)
"""By which one rank may have read its weights later than another."""

Forward = Callable[[PackedStep, StopSignal], Tensor]


class Rendezvous(NamedTuple):
    """Where the processes of a model find each other.

    Attributes:
        port: Of the store with which torch.distributed begins.
        socket: Path of the leader's socket.
        ranks: Number of processes.
    """

    port: int
    socket: str
    ranks: int


class RankLeader:
    """Rank 0."""

    def __init__(self, ranks: int) -> None:
        """Opens a meeting; the followers may come as soon as they know of it."""
        self._store = TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
        self._listener = Listener(family="AF_UNIX", backlog=ranks)
        self.meeting = Rendezvous(self._store.port, str(self._listener.address), ranks)
        self._lines: list[Connection] = []

    def join(self, device: torch.device) -> None:
        """Waits for all followers."""
        _join(self._store, 0, self.meeting.ranks, device)
        self._lines = [self._listener.accept() for _ in range(self.meeting.ranks - 1)]
        self._listener.close()

    def forward(self, own: Forward, step: PackedStep, stop: StopSignal) -> Tensor:
        """Computes ``own`` shard of a forward while the followers compute theirs.

        Raises:
            ForwardCancelled: ``stop`` was set in time; the followers stopped at the same layer.
        """
        with _in_step():
            for line in self._lines:
                line.send(step)
            return own(step, _Deciding(self._lines, stop))

    def close(self) -> None:
        """Lets the followers go."""
        for line in self._lines:
            line.close()
        dist.destroy_process_group()


class RankFollower:
    """Any other rank."""

    def __init__(self, meeting: Rendezvous, rank: int, device: torch.device) -> None:
        """Waits for the leader and all other followers."""
        _join(TCPStore(_HOST, meeting.port), rank, meeting.ranks, device)
        self._line = Client(meeting.socket)

    def follow(self, own: Forward) -> None:
        """Repeats the leader's forwards; returns when the leader is gone."""
        while True:
            try:
                step = self._line.recv()
            except EOFError:
                dist.destroy_process_group()
                return
            with _in_step(), contextlib.suppress(ForwardCancelled):
                own(step, _Told(self._line))


class _Deciding:
    """The leader's word on each layer."""

    def __init__(self, lines: list[Connection], stop: StopSignal) -> None:
        self._lines, self._stop = lines, stop

    def is_set(self) -> bool:
        is_set = self._stop.is_set()
        for line in self._lines:
            line.send_bytes(_STOP if is_set else _GO)
        return is_set


class _Told:
    """The same, as a follower hears it: it never runs ahead of the leader."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def is_set(self) -> bool:
        return self._line.recv_bytes() == _STOP


def _join(store: Store, rank: int, ranks: int, device: torch.device) -> None:
    on_gpu = device.type == "cuda"
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=ranks,
        timeout=_SKEW,
        device_id=device if on_gpu else None,
    )


@contextlib.contextmanager
def _in_step() -> Iterator[None]:
    """Ends the process where a forward fails.

    The ranks are no longer at the same place, so that their next sums would be of different
    things. The others find the line broken and end too.
    """
    try:
        yield
    except ForwardCancelled:
        raise
    except Exception:
        traceback.print_exc()
        os._exit(1)
