"""Kubernetes and KubeRay know every field."""

import kubernetes_validate
import pytest
from jsonschema import Draft7Validator

from tests.k8s.crd import ray_service_validator
from tests.k8s.manifests import OVERLAYS, pod_templates, ray_service, render

KUBERNETES = "1.32"
CUSTOM = {"RayService", "PodMonitor", "PrometheusRule"}
"""Kinds that Kubernetes itself does not know."""

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


@pytest.fixture(scope="module")
def ray_service_schema() -> Draft7Validator:
    return ray_service_validator()


@every_overlay
def test_core_kinds(overlay: str) -> None:
    core = [manifest for manifest in render(overlay) if manifest["kind"] not in CUSTOM]
    assert core
    for manifest in core:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@every_overlay
def test_pods(overlay: str) -> None:
    for template in pod_templates(overlay):
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


@every_overlay
def test_ray_service(overlay: str, ray_service_schema: Draft7Validator) -> None:
    errors = ray_service_schema.iter_errors(ray_service(overlay))
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_an_unknown_field_is_found(ray_service_schema: Draft7Validator) -> None:
    manifest = {**ray_service(OVERLAYS[0])}
    manifest["spec"] = {**manifest["spec"], "serveConfigV3": ""}
    assert not ray_service_schema.is_valid(manifest)


@every_overlay
def test_everything_lives_in_one_namespace(overlay: str) -> None:
    namespaced = [manifest for manifest in render(overlay) if manifest["kind"] != "Namespace"]
    assert {manifest["metadata"]["namespace"] for manifest in namespaced} == {"dsi-ray"}
