"""What KubeRay's operator checks, or breaks without, and no schema says."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.deployments.serve_files import ROOT
from tests.k8s.manifests import OVERLAYS, groups, of_kind, ray_cluster, ray_service

pytestmark = pytest.mark.parametrize("overlay", OVERLAYS)

FIRST_WITH_TOKENS = (2, 52)
LONGEST_NAME = 47


def version(text: str) -> tuple[int, ...]:
    """A version as numbers, which compare."""
    return tuple(int(part) for part in text.split("."))


def head_container(overlay: str) -> dict[str, Any]:
    """The head's Ray container."""
    return ray_cluster(overlay)["headGroupSpec"]["template"]["spec"]["containers"][0]  # type: ignore[no-any-return]


def test_ray_version_is_the_one_in_the_image(overlay: str) -> None:
    pins = Path(ROOT / "constraints.txt").read_text().splitlines()
    assert f"ray=={ray_cluster(overlay)['rayVersion']}" in pins


def test_token_authentication_needs_a_ray_that_knows_it(overlay: str) -> None:
    cluster = ray_cluster(overlay)
    assert cluster["authOptions"]["mode"] == "token"
    assert version(cluster["rayVersion"])[:2] >= FIRST_WITH_TOKENS


def test_name_leaves_room_for_what_the_operator_appends(overlay: str) -> None:
    name = ray_service(overlay)["metadata"]["name"]
    assert len(name) <= LONGEST_NAME
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_replicas_are_within_their_bounds(overlay: str) -> None:
    for group in ray_cluster(overlay)["workerGroupSpecs"]:
        assert 1 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_upgrades_are_the_services_business(overlay: str) -> None:
    assert "upgradeStrategy" not in ray_cluster(overlay)
    assert ray_service(overlay)["spec"]["upgradeStrategy"]["type"] in {"NewCluster", "None"}


def test_labels_are_not_start_parameters(overlay: str) -> None:
    assert not any("labels" in group["rayStartParams"] for group in groups(overlay))


def test_head_service_keeps_its_name(overlay: str) -> None:
    assert "headService" not in ray_cluster(overlay)["headGroupSpec"]


def test_resources_are_given_in_one_place(overlay: str) -> None:
    assert not any("resources" in group for group in groups(overlay))


def test_autoscaler_v2_replaces_pods_and_does_not_restart_them(overlay: str) -> None:
    cluster = ray_cluster(overlay)
    assert (cluster["enableInTreeAutoscaling"], cluster["autoscalerOptions"]["version"]) == (
        True,
        "v2",
    )
    policies = {group["template"]["spec"]["restartPolicy"] for group in groups(overlay)}
    assert policies == {"Never"}


def test_head_environment_leaves_to_the_operator_what_is_its(overlay: str) -> None:
    set_here = {variable["name"] for variable in head_container(overlay)["env"]}
    operators = {"RAY_enable_autoscaler_v2", "RAY_REDIS_ADDRESS", "REDIS_PASSWORD"}
    assert set_here & operators == set()


def test_fault_tolerance_is_set_by_options_alone(overlay: str) -> None:
    assert "annotations" not in ray_service(overlay)["metadata"]
    assert "redis-password" not in ray_cluster(overlay)["headGroupSpec"]["rayStartParams"]


def test_redis_is_the_one_that_is_deployed(overlay: str) -> None:
    services = of_kind(overlay, "Service")
    options = ray_cluster(overlay).get("gcsFaultToleranceOptions")
    assert (options is None) == (not services)
    if options is not None:
        name, _, port = options["redisAddress"].partition(":")
        assert int(port) in [entry["port"] for entry in services[name]["spec"]["ports"]]


def test_head_does_no_work(overlay: str) -> None:
    parameters = ray_cluster(overlay)["headGroupSpec"]["rayStartParams"]
    assert (parameters["num-cpus"], parameters["num-gpus"]) == ("0", "0")


def test_head_has_the_ports_that_the_operator_looks_for(overlay: str) -> None:
    ports = {port["name"]: port["containerPort"] for port in head_container(overlay)["ports"]}
    assert ports == {
        "gcs-server": 6379,
        "dashboard": 8265,
        "client": 10001,
        "serve": 8000,
        "metrics": 8080,
        "as-metrics": 44217,
        "dash-metrics": 44227,
    }


def test_a_worker_without_a_serve_proxy_gets_no_requests(overlay: str) -> None:
    for group in ray_cluster(overlay)["workerGroupSpecs"]:
        container = group["template"]["spec"]["containers"][0]
        assert container["readinessProbe"]["httpGet"] == {"path": "/-/healthz", "port": 8000}


def test_disruption_budget_protects_the_whole_group(overlay: str) -> None:
    workers = sum(group["minReplicas"] for group in ray_cluster(overlay)["workerGroupSpecs"])
    budget = of_kind(overlay, "PodDisruptionBudget")["dsi-ray-workers"]["spec"]
    assert budget["minAvailable"] == workers
