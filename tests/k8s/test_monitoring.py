"""Prometheus and Grafana get what deployments/ has, for every cluster with GPUs."""

import json
from typing import Any

import pytest
import yaml

from tests.deployments.serve_files import FOLDER
from tests.k8s.manifests import GPU_OVERLAYS, of_kind

pytestmark = pytest.mark.parametrize("overlay", GPU_OVERLAYS)

ALERTS = FOLDER / "prometheus" / "alerts.yaml"
DASHBOARD = FOLDER / "grafana" / "dsi-ray.json"


def alerts(overlay: str) -> list[dict[str, Any]]:
    """The groups of the one PrometheusRule."""
    (rule,) = of_kind(overlay, "PrometheusRule").values()
    return rule["spec"]["groups"]  # type: ignore[no-any-return]


def dashboard(overlay: str) -> str:
    """The text of the dashboard."""
    return of_kind(overlay, "ConfigMap")["dsi-ray-dashboard"]["data"]["dsi-ray.json"]  # type: ignore[no-any-return]


def test_alerts_say_how_bad_and_what(overlay: str) -> None:
    rules = [rule for group in alerts(overlay) for rule in group["rules"] if "alert" in rule]
    assert rules
    for rule in rules:
        assert rule["labels"]["severity"] and rule["annotations"]["summary"], rule["alert"]


def test_alerts_are_those_of_deployments(overlay: str) -> None:
    assert alerts(overlay) == yaml.safe_load(ALERTS.read_text())["groups"]


def test_dashboard_is_one(overlay: str) -> None:
    assert json.loads(dashboard(overlay))["panels"]


def test_dashboard_is_that_of_deployments(overlay: str) -> None:
    assert json.loads(dashboard(overlay)) == json.loads(DASHBOARD.read_text())


def test_both_kinds_of_pods_are_scraped(overlay: str) -> None:
    monitors = of_kind(overlay, "PodMonitor").values()
    kinds = {m["spec"]["selector"]["matchLabels"]["ray.io/node-type"] for m in monitors}
    assert kinds == {"head", "worker"}


def test_this_servers_metrics_are_read_once(overlay: str) -> None:
    monitors = of_kind(overlay, "PodMonitor").values()
    endpoints = [e for m in monitors for e in m["spec"]["podMetricsEndpoints"]]
    assert [e["port"] for e in endpoints if e.get("path") == "/metrics"] == ["serve"]
