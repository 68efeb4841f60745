"""Several Ray nodes on one machine, each of which may be killed."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

from ray.cluster_utils import Cluster

from dsi_ray.experiments.processes import parents
from dsi_ray.runtime.cluster import connect, disconnect


@contextlib.contextmanager
def many_nodes(*nodes: dict[str, Any]) -> Iterator[Cluster]:
    """Connects to a cluster of such nodes, and a head on which no server fits.

    Args:
        nodes: Of each, what ``ray.init`` would take.
    """
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for node in nodes:
            cluster.add_node(**node)
        connect(cluster.address)
        yield cluster
    finally:
        disconnect()
        cluster.shutdown()


def node_of(pid: int) -> int:
    """The process that stands for the Ray node to which a worker process belongs: its parent."""
    try:
        return parents()[pid]
    except KeyError:
        raise ProcessLookupError(pid) from None


def kill_node(pid: int) -> None:
    """Kills all processes of the Ray node to which a worker process belongs: a power failure."""
    node = node_of(pid)
    children = [child for child, parent in parents().items() if parent == node]
    for process in (node, *children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
