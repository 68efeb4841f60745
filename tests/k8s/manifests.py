"""The manifests of k8s/ as a cluster would get them."""

import functools
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.deployments.serve_files import ROOT

K8S = ROOT / "k8s"
OVERLAYS = sorted(folder.name for folder in (K8S / "overlays").iterdir())
GPU_OVERLAYS = sorted(set(OVERLAYS) - {"cpu-demo"})

Manifest = dict[str, Any]


@functools.cache
def render(overlay: str) -> list[Manifest]:
    """Every object of an overlay; skips the test where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: manifests cannot be rendered")
    command = [kubectl, "kustomize", str(K8S / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(overlay: str, kind: str) -> dict[str, Manifest]:
    """The objects of one kind, by name."""
    return {
        manifest["metadata"]["name"]: manifest
        for manifest in render(overlay)
        if manifest["kind"] == kind
    }


def ray_service(overlay: str) -> Manifest:
    """The one RayService."""
    (only,) = of_kind(overlay, "RayService").values()
    return only


def ray_cluster(overlay: str) -> Manifest:
    """The specification of its Ray cluster."""
    return ray_service(overlay)["spec"]["rayClusterConfig"]  # type: ignore[no-any-return]


def groups(overlay: str) -> list[Manifest]:
    """The head's group, then those of the workers."""
    cluster = ray_cluster(overlay)
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def pod_templates(overlay: str) -> list[Manifest]:
    """The templates of all pods, of Ray's and of other workloads."""
    ours = [group["template"] for group in groups(overlay)]
    sets = of_kind(overlay, "StatefulSet").values()
    return [*ours, *(manifest["spec"]["template"] for manifest in sets)]


def containers(overlay: str) -> list[Manifest]:
    """The containers of all pods."""
    return [c for template in pod_templates(overlay) for c in template["spec"]["containers"]]


def find(node: Any, key: str) -> Iterator[Any]:
    """Every value of ``key`` anywhere in a manifest."""
    if isinstance(node, dict):
        if key in node:
            yield node[key]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from find(item, key)
