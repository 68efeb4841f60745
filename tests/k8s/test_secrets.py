"""Secrets are named, documented and never contained."""

import pytest

from tests.k8s.manifests import K8S, OVERLAYS, find, groups, ray_cluster, render

pytestmark = pytest.mark.parametrize("overlay", OVERLAYS)


def test_no_secret_is_contained(overlay: str) -> None:
    assert "Secret" not in {manifest["kind"] for manifest in render(overlay)}


def test_every_secret_is_documented_with_its_key(overlay: str) -> None:
    readme = (K8S / "README.md").read_text()
    for reference in find(render(overlay), "secretKeyRef"):
        assert f"secret generic {reference['name']} --from-literal={reference['key']}=" in readme
    token = ray_cluster(overlay)["authOptions"]["secretName"]
    assert f"secret generic {token} --from-literal=auth_token=" in readme


def test_no_password_is_a_plain_value(overlay: str) -> None:
    plain = {
        variable["name"]
        for env in find(render(overlay), "env")
        for variable in env
        if "value" in variable
    }
    assert plain <= {"HF_HOME", "RAY_USAGE_STATS_ENABLED"}


def test_without_api_keys_no_pod_starts(overlay: str) -> None:
    for group in groups(overlay):
        env = {v["name"]: v for v in group["template"]["spec"]["containers"][0]["env"]}
        assert "optional" not in env["DSI_RAY_API_KEYS"]["valueFrom"]["secretKeyRef"]


def test_everything_else_that_is_referenced_is_there(overlay: str) -> None:
    objects = {(m["kind"], m["metadata"]["name"]) for m in render(overlay)}
    for claim in find(render(overlay), "persistentVolumeClaim"):
        assert ("PersistentVolumeClaim", claim["claimName"]) in objects
    assert list(find(render(overlay), "configMapKeyRef")) == []
    assert list(find(render(overlay), "configMapRef")) == []
