"""Fills the page's template."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from loadtest.record import Record, by_point
from loadtest.report.plots import plots
from loadtest.summary import Summary
from loadtest.table import CLIENT, DISTRIBUTIONS, NOT_REPORTED, OVERVIEW, SERVER, STATISTICS

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_page(summary: Summary, records: Sequence[Record], file: Path) -> None:
    """Writes a run's page.

    Raises:
        LoadTestError: Matplotlib is not installed.
    """
    page = _TEMPLATES.get_template("page.html").render(
        summary=summary,
        overview=OVERVIEW,
        distributions=DISTRIBUTIONS,
        statistics=STATISTICS,
        client=CLIENT,
        server=SERVER,
        not_reported=NOT_REPORTED,
        plots=[Markup(svg) for svg in plots(summary, by_point(records))],
        scenario=_yaml(summary.scenario.model_dump(mode="json", exclude_none=True)),
        environment=_yaml(
            {"server": summary.target.model_dump(), "load generator": summary.environment}
        ),
    )
    file.write_text(page, "utf-8")


def _yaml(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
