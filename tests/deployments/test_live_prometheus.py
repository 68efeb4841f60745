"""A real Prometheus that scrapes a real cluster has data for all that we ask of it."""

import math
import time
from collections.abc import Iterator
from typing import Any

import httpx
import promql_parser as promql
import pytest

from deployments.grafana.prometheus import Prometheus, fill_in
from dsi_ray.cli.status import read_status
from dsi_ray.runtime.metrics.catalogue import PREFIX
from tests.deployments import live
from tests.deployments.test_monitoring import PANELS, RULES, expressions

_WATCHED_S = 8.0
# Ray forgets a gauge after twice this time, and we set ours every 5 s.
_OFTEN = {"RAY_metrics_report_interval_ms": "3000"}
_TRIES = 4


@pytest.fixture(scope="module")
def url_and_prometheus(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Prometheus]]:
    """A server of the demo pair that is asked all the time, and who watches it."""
    program = live.find("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed: make test fetches it where apt-get can")
    with (
        live.cluster("--num-cpus=8", **_OFTEN) as head,
        live.server(head.address, "--sp-degree=2") as url,
        live.prometheus(
            program, tmp_path_factory.mktemp("prometheus"), url, head.services
        ) as watching,
        live.load(url, clients=2),
    ):
        yield url, Prometheus(watching)


def operands(node: Any) -> Iterator[str]:
    """What an alert compares; all is well where the comparison itself gives nothing."""
    match node:
        case promql.NumberLiteral():
            return
        case promql.ParenExpr():
            yield from operands(node.expr)
        case promql.Call() if node.func.name == "absent":
            yield from map(str, node.args)
        case promql.BinaryExpr() if str(node.op) in ("and", "or", "<", ">", "==", ">="):
            yield from operands(node.lhs)
            yield from operands(node.rhs)
        case _:
            yield str(node)


def check(prometheus: Prometheus, wanted: list[str]) -> None:
    """Waits until every expression has data."""
    missing = dict.fromkeys(wanted)

    def nothing_is_missing() -> bool:
        for expr in list(missing):
            if not all(map(math.isnan, prometheus.at(time.time(), expr))):
                del missing[expr]
        return not missing

    live.wait_until(nothing_is_missing, lambda: list(missing))


@pytest.mark.parametrize("source", [PREFIX, f"ray_{PREFIX}"])
def test_every_panel_has_data(source: str, url_and_prometheus: tuple[str, Prometheus]) -> None:
    check(url_and_prometheus[1], expressions(source))


def test_every_rule_has_data(url_and_prometheus: tuple[str, Prometheus]) -> None:
    recorded = [rule["record"] for rule in RULES if "record" in rule]
    compared = [expr for rule in RULES for expr in operands(promql.parse(rule["expr"]))]
    check(url_and_prometheus[1], recorded + compared)


def test_sp_utilisation_is_what_the_coordinator_counts(
    url_and_prometheus: tuple[str, Prometheus],
) -> None:
    url, prometheus = url_and_prometheus
    (panel,) = (panel for panel in PANELS if panel["title"] == "SP utilisation")
    watched = f"{_WATCHED_S:g}s"
    exprs = [fill_in(target["expr"], watched, watched) for target in panel["targets"]]
    with httpx.Client(base_url=url, timeout=60) as http:
        # The two look at moments up to a second apart: where the load changes they may differ.
        for _ in range(_TRIES):
            (group,) = read_status(http, _WATCHED_S)["groups"]
            now = time.time()
            counted = [group["sp_utilisation"], group["useful_sp_utilisation"]]
            asked = [value for expr in exprs for value in prometheus.at(now, expr)]
            if asked == pytest.approx(counted, rel=0.05):
                break
        else:
            pytest.fail(f"the coordinator counts {counted}, Prometheus says {asked}")
    assert 0 < counted[1] <= counted[0] <= 1
