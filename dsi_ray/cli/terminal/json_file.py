"""``--json``: a command's figures for machines, in a file or on stdout."""

import json
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dsi_ray.config import ConfigError

STDOUT = Path("-")

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", help="Write the figures to a file, or to stdout without one.", metavar="[FILE]"
    ),
]


class JsonCommand(TyperCommand):
    """A command whose ``--json`` may come without a file: typer has no optional values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts stdout where the file was left out."""
        filled = []
        for arg, following in zip_longest(args, args[1:], fillvalue="--"):
            filled.append(arg)
            if arg == "--json" and following.startswith("--"):
                filled.append(str(STDOUT))
        return super().parse_args(ctx, filled)


def check_writable(file: Path | None) -> None:
    """Finds out before the work, not after it.

    Raises:
        ConfigError: ``file`` cannot be written.
    """
    if file not in (None, STDOUT) and not file.parent.is_dir():
        raise ConfigError(f"cannot write {file}: there is no directory {file.parent}")


def write_json(figures: Any, file: Path | None) -> None:
    """Writes ``figures`` to ``file``, which may be stdout or nothing."""
    text = json.dumps(figures, indent=2) + "\n"
    if file == STDOUT:
        typer.echo(text, nl=False)
    elif file is not None:
        file.write_text(text)
