"""Checks of the cluster: whether Ray runs, with the GPUs that torch sees, and has room."""

import contextlib
from collections import Counter
from collections.abc import Iterator

import ray
import torch

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.runtime.coordinator.placement import bundles, on_devices
from dsi_ray.runtime.doctor.finding import Finding, FindingState, finding
from dsi_ray.runtime.doctor.memory import check_gpu_memory
from dsi_ray.runtime.ray.cluster import connect, disconnect

_SHOWN = ("CPU", "GPU")


def check_cluster(config: EngineConfig) -> Iterator[Finding]:
    """Joins the cluster, or starts one for as long as this takes."""
    try:
        owns_ray = connect(config.address)
    except (ConfigError, RuntimeError) as error:
        yield Finding(
            "Ray",
            FindingState.FAILED,
            " ".join(str(error).split()),
            "ray status on the cluster's head tells more; without --address Ray starts here",
        )
        return
    with contextlib.ExitStack() as stack:
        if owns_ray:
            stack.callback(disconnect)
        resources = ray.cluster_resources()
        nodes = sum(node["Alive"] for node in ray.nodes())
        sizes = ", ".join(f"{name}s: {resources.get(name, 0):g}" for name in _SHOWN)
        where = config.address or "started here"
        yield Finding(
            "Ray", FindingState.OK, f"{ray.__version__}, {where}; nodes: {nodes}, {sizes}"
        )
        yield check_gpus(int(resources.get("GPU", 0)))
        placed = on_devices(config, resources.get("GPU", 0))
        yield check_room(bundles(placed), resources)
        yield from check_gpu_memory(placed)


def check_gpus(in_ray: int) -> Finding:
    """Whether Ray and torch agree about GPUs; on a cluster they may be on other machines."""
    in_torch = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return finding(
        "GPUs",
        in_ray >= in_torch,
        f"{in_torch} that torch sees here, {in_ray} that Ray has",
        "start Ray with --num-gpus, and without a CUDA_VISIBLE_DEVICES that hides some",
        FindingState.WARNING,
    )


def check_room(wanted: list[dict[str, float]], resources: dict[str, float]) -> Finding:
    """Whether a cluster has what the group's bundles ask for, free or not."""
    total: Counter[str] = Counter()
    for bundle in wanted:
        total.update(bundle)
    missing = {name: amount for name, amount in total.items() if amount > resources.get(name, 0)}
    asked = ", ".join(f"{amount:g} {name}" for name, amount in total.items() if amount >= 1)
    lacks = ", ".join(f"{resources.get(name, 0):g} {name}" for name in missing)
    return finding(
        "room",
        not missing,
        f"the group asks for {asked or 'next to nothing'}"
        + (f"; there is {lacks}" if lacks else ""),
        "lower --sp-degree, add nodes, or set device: cpu",
    )
