"""Figures as files."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows with the same keys."""
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
