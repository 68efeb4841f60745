"""Who may reach what."""

from typing import Any

import pytest

from tests.k8s.manifests import OVERLAYS, find, of_kind, pod_templates

pytestmark = pytest.mark.parametrize("overlay", OVERLAYS)

PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}


def main_policy(overlay: str) -> dict[str, Any]:
    """The policy of Ray's pods."""
    return of_kind(overlay, "NetworkPolicy")["dsi-ray"]["spec"]  # type: ignore[no-any-return]


def ports_for(overlay: str, labels: dict[str, str]) -> set[int]:
    """The ports that pods with these labels reach."""
    return {
        port["port"]
        for rule in main_policy(overlay)["ingress"]
        if labels in list(find(rule["from"], "matchLabels"))
        for port in rule["ports"]
    }


def test_every_pod_has_a_policy_for_both_directions(overlay: str) -> None:
    policies = [manifest["spec"] for manifest in of_kind(overlay, "NetworkPolicy").values()]
    for template in pod_templates(overlay):
        labels = template["metadata"]["labels"].items()
        mine = [p for p in policies if p["podSelector"]["matchLabels"].items() <= labels]
        assert {kind for policy in mine for kind in policy["policyTypes"]} == {"Ingress", "Egress"}


def test_clients_reach_the_serve_port_alone(overlay: str) -> None:
    assert ports_for(overlay, {"dsi-ray-clients": "allowed"}) == {8000}


def test_nobody_from_anywhere(overlay: str) -> None:
    assert all(rule.get("from") for rule in main_policy(overlay)["ingress"])
    assert list(find(main_policy(overlay)["ingress"], "ipBlock")) == []


def test_names_can_be_resolved(overlay: str) -> None:
    ports = [port for rule in main_policy(overlay)["egress"] for port in rule.get("ports", [])]
    assert {"port": 53, "protocol": "UDP"} in ports


def test_no_way_to_the_nodes_credentials(overlay: str) -> None:
    for block in find(main_policy(overlay)["egress"], "ipBlock"):
        assert "169.254.169.254/32" in block["except"]


def test_prometheus_reaches_what_it_is_told_to_scrape(overlay: str) -> None:
    named = {
        port["name"]: port["containerPort"]
        for template in pod_templates(overlay)
        for container in template["spec"]["containers"]
        for port in container["ports"]
    }
    scraped = find(list(of_kind(overlay, "PodMonitor").values()), "podMetricsEndpoints")
    ports = {named[endpoint["port"]] for endpoints in scraped for endpoint in endpoints}
    assert ports <= ports_for(overlay, PROMETHEUS)
