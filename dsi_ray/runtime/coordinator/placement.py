"""Who runs where: the placement group, its bundles, and the actors in them."""

import asyncio
import statistics
from typing import Any, TypeVar

import ray
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from dsi_ray.config import ConfigError, EngineConfig, ModelConfig
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.core.planning.expected import ForwardCost
from dsi_ray.core.planning.performance_model import PerformanceModel
from dsi_ray.runtime.coordinator.servers import LocalServer, RemoteServer, Server
from dsi_ray.runtime.server.model_server import ModelServer
from dsi_ray.runtime.server.rank_workers import RankWorker

C = TypeVar("C", bound=EngineConfig)

_LEAST = 0.001
"""Ray refuses bundles without resources; this much of a CPU is for those that ask for none."""


def server_models(config: EngineConfig) -> dict[ServerId, ModelConfig]:
    """Every server of the group and its model; target servers first."""
    targets = {ServerId(Role.TARGET, i): config.target for i in range(config.sp_degree)}
    drafters = {ServerId(Role.DRAFTER, i): model for i, model in enumerate(config.drafters)}
    return targets | drafters


def on_devices(config: C, gpus: float) -> C:
    """Decides for the models that leave it open (``device: auto``) where they run.

    Args:
        config: What the engine is made of.
        gpus: What the cluster has of them: targets get theirs first, then the drafters by rank.
    """
    servers = [config.sp_degree * config.num_groups] + [config.num_groups] * len(config.drafters)
    models = [config.target, *config.drafters]
    gpus -= sum(model.gpus * count for model, count in zip(models, servers, strict=True))
    for index, (model, count) in enumerate(zip(models, servers, strict=True)):
        if not model.leaves_device_open:
            continue
        fits = model.parallel * count <= gpus
        models[index] = model.model_copy(update={"device": "cuda" if fits else "cpu"})
        gpus -= models[index].gpus * count
    target, *drafters = models
    return config.model_copy(update={"target": target, "drafters": tuple(drafters)})


def bundles(config: EngineConfig) -> list[dict[str, float]]:
    """Resources: the coordinator's bundle, then one for each server that has actors.

    A bundle is always on one node, and so are all devices of a server.
    """
    return [{"CPU": _LEAST}, *map(_resources, _placed(config).values())]


def create_placement_group(config: EngineConfig) -> PlacementGroup:
    """Asks Ray for the group's bundles; they may not be ready yet.

    Raises:
        ConfigError: A label is none.
    """
    # The coordinator's and the first drafter's bundles have the same labels.
    first = config.drafters[0].labels if config.drafters else {}
    labels = [first, *(model.labels for model in _placed(config).values())]
    try:
        return placement_group(
            bundles(config), strategy=config.placement_strategy, bundle_label_selector=labels
        )
    except ValueError as error:
        raise ConfigError(f"labels: {error}") from error


def in_bundle(group: PlacementGroup, index: int) -> PlacementGroupSchedulingStrategy:
    """The scheduling strategy for the actor in one bundle."""
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)


def start_server(
    config: EngineConfig, server_id: ServerId, placement: PlacementGroup, group: int
) -> Server:
    """Starts a model server in its bundle; its actors go on starting while this returns."""
    model = server_models(config)[server_id]
    if runs_inside(model):
        return LocalServer(ModelServer(model, server_id, group))
    options: dict[str, Any] = {
        "num_cpus": model.num_cpus / model.ranks,
        "num_gpus": model.gpus / model.ranks,
        # The first bundle is the coordinator's.
        "scheduling_strategy": in_bundle(placement, 1 + list(_placed(config)).index(server_id)),
        # A task event for every call would cost more than the call.
        "enable_task_events": False,
    }
    rank_actor = ray.remote(RankWorker).options(**options)
    followers = [rank_actor.remote(model, server_id, group, rank) for rank in range(1, model.ranks)]
    actor = ray.remote(ModelServer).options(**options, max_concurrency=10_000)
    return RemoteServer(
        actor.remote(model, server_id, group, followers),
        config.transport,
        config.lane_port_numbers,
    )


def runs_inside(model: ModelConfig) -> bool:
    """Whether a drafter lives in the coordinator's process; looking a token up takes no device."""
    return model.model == "lookup" or not model.own_process


async def measure_pace(servers: dict[ServerId, Server]) -> PerformanceModel:
    """Measured latencies of target, drafters and messages."""
    measured = dict(
        zip(
            servers,
            await asyncio.gather(*(server.measure() for server in servers.values())),
            strict=True,
        )
    )
    # Each begins with the forward of one token.
    single = {
        role: [points[0][1] for server_id, points in measured.items() if server_id.role is role]
        for role in Role
    }
    target = statistics.median(single[Role.TARGET])
    # One after another: none waits for an answer to another.
    messages = [await server.latency() for server in servers.values()]
    cost = ForwardCost(tuple(measured[ServerId(Role.TARGET, 0)]))
    return PerformanceModel(
        target,
        min(single[Role.DRAFTER], default=target),
        statistics.median(latency for latency, _ in messages),
        cost=cost,
        processor=statistics.median(work for _, work in messages),
    )


def _placed(config: EngineConfig) -> dict[ServerId, ModelConfig]:
    """The servers that have bundles of their own, in the order of these."""
    models = server_models(config)
    return {server: model for server, model in models.items() if not runs_inside(model)}


def _resources(model: ModelConfig) -> dict[str, float]:
    resources = {"CPU": max(model.num_cpus, _LEAST), "GPU": float(model.gpus)}
    if model.accelerator_type is not None:
        resources[f"accelerator_type:{model.accelerator_type}"] = 0.001
    return {name: amount for name, amount in resources.items() if amount}
