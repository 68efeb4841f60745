"""Every pod is pinned, probed, bounded and without rights."""

import re

import pytest

from tests.deployments.serve_files import FOLDER
from tests.k8s.manifests import OVERLAYS, containers, pod_templates, ray_cluster

pytestmark = pytest.mark.parametrize("overlay", OVERLAYS)


def test_images_have_a_version(overlay: str) -> None:
    for container in containers(overlay):
        _, _, tag = container["image"].rpartition(":")
        assert re.match(r"\d+\.\d+\.\d+", tag), container["image"]


def test_all_ray_pods_run_one_image(overlay: str) -> None:
    images = {c["image"] for c in containers(overlay) if c["name"].startswith("ray-")}
    assert len(images) == 1
    assert images.pop().startswith("registry.example.com/dsi-ray:")


def test_probes(overlay: str) -> None:
    for container in containers(overlay):
        assert {"livenessProbe", "readinessProbe"} <= container.keys(), container["name"]


def test_resources_are_guaranteed(overlay: str) -> None:
    for container in containers(overlay):
        resources = container["resources"]
        assert {"cpu", "memory"} <= resources["limits"].keys()
        if container["name"].startswith("ray-"):
            assert resources["requests"] == resources["limits"]


def test_autoscaler_is_bounded(overlay: str) -> None:
    options = ray_cluster(overlay)["autoscalerOptions"]
    assert options["resources"]["limits"]
    assert options["securityContext"]["allowPrivilegeEscalation"] is False


def test_no_rights(overlay: str) -> None:
    for template in pod_templates(overlay):
        security = template["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(overlay):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_only_the_head_may_talk_to_the_api_server(overlay: str) -> None:
    head, *others = pod_templates(overlay)
    assert "automountServiceAccountToken" not in head["spec"], "its autoscaler needs the token"
    assert all(other["spec"]["automountServiceAccountToken"] is False for other in others)


def test_user_is_the_images(overlay: str) -> None:
    for dockerfile in FOLDER.glob("Dockerfile*"):
        (user,) = re.findall(r"^USER (\d+)$", dockerfile.read_text(), re.MULTILINE)
        assert pod_templates(overlay)[0]["spec"]["securityContext"]["runAsUser"] == int(user)


def test_volumes_are_mounted(overlay: str) -> None:
    for template in pod_templates(overlay):
        spec = template["spec"]
        mounted = {m["name"] for c in spec["containers"] for m in c.get("volumeMounts", [])}
        assert {volume["name"] for volume in spec.get("volumes", [])} <= mounted
