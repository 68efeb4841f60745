"""Several Ray nodes on one machine: what tests and experiments need where nodes die."""

import contextlib
from collections.abc import Iterator
from typing import Any

from ray.cluster_utils import Cluster

from dsi_ray.runtime.ray.cluster import connect, disconnect


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
