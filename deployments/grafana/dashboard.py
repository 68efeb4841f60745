"""Writes the Grafana dashboard: ``python -m deployments.grafana.dashboard`` after a change.

Into this folder, and into ``k8s/``, whose manifests cannot reach files outside.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployments.grafana.panel import WIDTH, Panel
from deployments.grafana.panels import ROWS
from dsi_ray.runtime.metrics.catalogue import CATALOGUE, PREFIX

ROOT = Path(__file__).parents[2]
FILES = (
    ROOT / "deployments" / "grafana" / "dsi-ray.json",
    ROOT / "k8s" / "components" / "monitoring" / "dsi-ray.json",
)

_SOURCE = "${metrics}"
"""What a group counts is at /metrics, and behind ``ray_`` in Ray's own Prometheus."""


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    return {
        "uid": "dsi-ray",
        "title": "dsi-ray",
        "tags": ["ray", "dsi-ray"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_DATASOURCE, _METRICS]},
        "panels": list(_panels()),
    }


_DATASOURCE = {"name": "datasource", "type": "datasource", "query": "prometheus"}

_METRICS = {
    "name": "metrics",
    "label": "From",
    "description": "The server's /metrics, or what Ray passes on.",
    "type": "custom",
    "query": f"/metrics : {PREFIX}, Ray : ray_{PREFIX}",
    "current": {"text": "/metrics", "value": PREFIX},
    "options": [
        {"text": "/metrics", "value": PREFIX, "selected": True},
        {"text": "Ray", "value": f"ray_{PREFIX}", "selected": False},
    ],
}


def _panels() -> Iterator[dict[str, Any]]:
    number = y = 0
    for row in ROWS:
        number += 1
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": place, "panels": []}
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + row.height
            number += 1
            place = {"x": x, "y": y, "w": panel.width, "h": row.height}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            x += panel.width
        y += row.height


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "title": panel.title,
        "description": panel.description,
        "type": panel.kind,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": _from_source(expr),
                "legendFormat": legend,
                "instant": panel.kind == "bargauge",
            }
            for index, (legend, expr) in enumerate(panel.targets.items())
        ],
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    """How values look."""
    low, high = panel.limits
    defaults: dict[str, Any] = {"unit": panel.unit, "min": low, "max": high}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 40 if panel.stacked else 10,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "off" if panel.floor is None else "line"},
        }
    if panel.kind == "status-history":
        defaults["color"] = {"mode": "continuous-BlYlRd"}
    elif panel.kind == "stat" and panel.floor is None:
        defaults["color"] = {"mode": "fixed", "fixedColor": "text"}
    elif panel.kind in ("stat", "state-timeline"):
        defaults["color"] = {"mode": "thresholds"}
    if panel.floor is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.floor}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {key: value for key, value in defaults.items() if value is not None}


def _from_source(expr: str) -> str:
    """An expression whose group metrics come from where the viewer chooses."""
    for name in CATALOGUE:
        expr = expr.replace(name, name.replace(PREFIX, _SOURCE, 1))
    return expr


if __name__ == "__main__":
    for file in FILES:
        file.write_text(json.dumps(dashboard(), indent=2) + "\n")
