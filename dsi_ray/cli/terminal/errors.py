"""Every error is one line that says what to do, and an exit status."""

import functools
import io
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from dsi_ray.config import ConfigError
from dsi_ray.models.base import ModelError
from dsi_ray.runtime.errors import EngineError, RequestError

USAGE = 2
"""Exit status where the command, the configuration or the request is wrong."""

FAILURE = 1
"""Exit status where something failed while it ran."""

_INTERRUPTED = 130


class OneLineErrors(TyperGroup):
    """A command whose known errors are shown as one line on stderr, without a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs the command and exits, unless ``standalone_mode`` is off."""
        run = functools.partial(
            super().main, args, prog_name, complete_var, False, windows_expand_args, **extra
        )
        if not standalone_mode:
            return run()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal need not be able to show what a model writes.
                stream.reconfigure(errors="replace")
        try:
            sys.exit(run() or 0)
        except typer.TyperException as error:
            _exit(f"{error.format_message().rstrip('.')}; see --help", USAGE)
        except (ConfigError, ModelError, RequestError) as error:
            _exit(str(error), USAGE)
        except EngineError as error:
            _exit(str(error), FAILURE)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(_INTERRUPTED)


def _exit(message: str, status: int) -> None:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(status)
