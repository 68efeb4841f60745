"""What the RayService deploys, and that its pods have the devices for it."""

import pytest
from ray.autoscaler._private.kuberay.autoscaling_config import (
    _generate_available_node_types_from_ray_cr_spec,
)

from dsi_ray.runtime.coordinator.placement import bundles
from tests.deployments.serve_files import (
    FOLDER,
    HOST_NAME,
    INGRESS_NAME,
    deployments,
    serving_config,
)
from tests.k8s.manifests import OVERLAYS, ray_cluster, ray_service

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)

Resources = dict[str, float]


def serve_config(overlay: str) -> str:
    """The Serve config inside the RayService."""
    return ray_service(overlay)["spec"]["serveConfigV2"]  # type: ignore[no-any-return]


def nodes(overlay: str) -> list[Resources]:
    """What each worker has at least, as Ray's autoscaler reads the RayCluster."""
    types = _generate_available_node_types_from_ray_cr_spec(ray_cluster(overlay))
    return [dict(kind["resources"]) for kind in types.values() for _ in range(kind["min_workers"])]


def place(wanted: Resources, free: list[Resources]) -> None:
    """Takes what is wanted from the first node that has it."""
    for node in free:
        if all(node.get(name, 0) >= amount for name, amount in wanted.items()):
            for name, amount in wanted.items():
                node[name] -= amount
            return
    pytest.fail(f"no node has {wanted} left: {free}")


@every_overlay
def test_serve_and_this_package_accept_it(overlay: str) -> None:
    assert serving_config(serve_config(overlay)).served_model_name


@pytest.mark.parametrize(
    ("overlay", "file"),
    [("single-node-8gpu", "node-8gpu.yaml"), ("multi-node", "multi-node.yaml")],
)
def test_it_is_the_file_that_is_tried_without_kubernetes(overlay: str, file: str) -> None:
    assert serve_config(overlay) == (FOLDER / file).read_text()


def actor(overlay: str, name: str) -> Resources:
    """What each replica of a deployment asks for."""
    options = deployments(serve_config(overlay))[name].ray_actor_options
    wanted: Resources = {"CPU": options.num_cpus or 0}
    if options.accelerator_type:
        wanted[f"accelerator_type:{options.accelerator_type}"] = 0.001
    return wanted


@every_overlay
def test_everything_fits_into_the_pods(overlay: str) -> None:
    free = nodes(overlay)
    config = serving_config(serve_config(overlay))
    ingress = [actor(overlay, INGRESS_NAME)] * config.num_ingress
    for wanted in [*ingress, actor(overlay, HOST_NAME), *bundles(config)]:
        place(wanted, free)


@every_overlay
@pytest.mark.parametrize("name", [INGRESS_NAME, HOST_NAME])
def test_nothing_is_on_the_head(overlay: str, name: str) -> None:
    assert actor(overlay, name)["CPU"], (
        "the head has no CPU to give, but one that asks for none fits there"
    )


@every_overlay
def test_an_old_cluster_finishes_its_requests(overlay: str) -> None:
    delay = ray_service(overlay)["spec"]["rayClusterDeletionDelaySeconds"]
    assert delay >= serving_config(serve_config(overlay)).request_timeout_s


@every_overlay
def test_first_nodes_wait_for_the_last(overlay: str) -> None:
    idle = ray_cluster(overlay)["autoscalerOptions"]["idleTimeoutSeconds"]
    assert idle >= serving_config(serve_config(overlay)).placement_timeout_s
