"""The dashboard, the rules and the alerts ask for metrics that exist, in a language that parses."""

import json
import subprocess
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deployments.grafana.dashboard import FILES, WIDTH, dashboard
from deployments.grafana.prometheus import fill_in
from dsi_ray.runtime.metrics.catalogue import CATALOGUE, PREFIX, MetricKind
from dsi_ray.serving.group_metrics import UP
from dsi_ray.serving.metrics import ServiceMetrics
from tests.deployments.live import find
from tests.deployments.serve_files import FOLDER

PROMETHEUS = FOLDER / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
PANELS = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
_SUFFIXES = ("_bucket", "_count", "_sum")


def known() -> dict[str, set[str]]:
    """The labels of every metric that there is, by its name."""
    found = {UP: {"group"}}
    for metric in CATALOGUE.values():
        for suffix in _SUFFIXES if metric.kind is MetricKind.HISTOGRAM else ("",):
            found[metric.name + suffix] = {*metric.labels, "group"}
    for family in text_string_to_metric_families(ServiceMetrics(ingress=0).text().decode()):
        total = "_total" if family.type == "counter" else ""
        suffixes = _SUFFIXES if family.type == "histogram" else (total,)
        found |= {family.name + suffix: {"status", "reason", "endpoint"} for suffix in suffixes}
    found |= {rule["record"]: set() for rule in RULES if "record" in rule}
    return found


def selectors(expr: str) -> list[promql.VectorSelector]:
    """Every selector of an expression."""
    found: list[promql.VectorSelector] = []

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)

    promql.walk(promql.parse(expr), visit)
    return found


def check(expr: str) -> None:
    """Checks that an expression parses, and that its metrics and their labels exist."""
    metrics, found = known(), selectors(expr)
    assert found
    for selector in found:
        assert selector.name in metrics, selector.name
        for matcher in selector.matchers.matchers:
            assert matcher.name in metrics[selector.name], (selector.name, matcher.name)


def expressions(source: str) -> list[str]:
    """All of the dashboard, with its variables filled in."""
    return [
        fill_in(target["expr"], "5m", "1m", source)
        for panel in PANELS
        for target in panel["targets"]
    ]


def test_dashboard_is_generated() -> None:
    for file in FILES:
        message = f"{file}: run python -m deployments.grafana.dashboard"
        assert json.loads(file.read_text()) == dashboard(), message


@pytest.mark.parametrize("expr", expressions(PREFIX))
def test_dashboard_asks_for_what_there_is(expr: str) -> None:
    check(expr)


def test_only_what_ray_has_is_asked_of_ray() -> None:
    """What is left without ``ray_`` are the HTTP server's own metrics."""
    server = {name for name in known() if name not in CATALOGUE}
    for expr in expressions(f"ray_{PREFIX}"):
        for selector in selectors(expr):
            base = selector.name.removeprefix("ray_")
            assert (base == selector.name) == (base in server - {f"{n}_bucket" for n in CATALOGUE})


def test_every_metric_of_a_group_is_on_the_dashboard_or_told_why_not() -> None:
    shown = " ".join(expressions(PREFIX))
    # Shares of these are shown as time, which says more.
    others = {"dsi_ray_drafter_forwards_total", "dsi_ray_drafted_tokens_total"}
    # The rate of windows is shown in place of the smoothed one; the other is a detail.
    others |= {"dsi_ray_acceptance_rate", "dsi_ray_tasks"}
    # How many are busy at one moment says less than how many are in the mean.
    others |= {"dsi_ray_target_servers_busy"}
    assert {name for name in CATALOGUE if name not in shown} == others


def test_panels_fill_the_grid_without_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < WIDTH
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_ask_for_what_there_is(rule: dict[str, Any]) -> None:
    check(rule["expr"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"].endswith(".")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", str(PROMETHEUS / "prometheus.yaml")],
        ["check", "rules", str(PROMETHEUS / "alerts.yaml")],
        ["test", "rules", str(FOLDER.parent / "tests" / "deployments" / "alerts.test.yaml")],
    ],
    ids=["config", "rules", "alerts"],
)
def test_prometheus_own_tool_agrees(arguments: list[str]) -> None:
    promtool = find("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: alerts cannot be tried")
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
