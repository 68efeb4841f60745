"""A whole run: what was asked, where, and what came out. ``summary.json`` in its folder."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from loadtest.errors import LoadTestError
from loadtest.metrics import Figures
from loadtest.scenario import Scenario
from loadtest.server import ServerFigures

SUMMARY = "summary.json"
RECORDS = "requests.jsonl"
PAGE = "report.html"


class Target(BaseModel):
    """The server under test.

    Attributes:
        url: Its address, without ``/v1``.
        model: The model's name.
        version: What ``/version`` says, if anything.
    """

    url: str
    model: str
    version: Any = None


class Point(BaseModel):
    """One load of a run.

    Attributes:
        name: Of the value of the sweep, or of the kind of load.
        figures: What the client saw.
        server: What the server counted meanwhile.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    figures: Figures
    server: ServerFigures


class Summary(BaseModel):
    """All that is known of a run but its single requests.

    Attributes:
        name: For people.
        scenario: What was asked for.
        target: Of whom.
        environment: Of the load generator.
        points: One, or one for each value of the sweep.
    """

    name: str
    scenario: Scenario
    target: Target
    environment: dict[str, Any]
    points: list[Point]


def read_summary(folder: Path) -> Summary:
    """Reads the summary in a run's folder.

    Raises:
        LoadTestError: There is none.
    """
    file = folder / SUMMARY
    try:
        return Summary.model_validate_json(file.read_text("utf-8"))
    except (OSError, ValidationError) as error:
        raise LoadTestError(f"cannot read {file}: {error}") from error


def write_summary(summary: Summary, folder: Path) -> None:
    """Writes the summary into a run's folder."""
    (folder / SUMMARY).write_text(summary.model_dump_json(indent=2) + "\n", "utf-8")
