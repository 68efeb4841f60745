"""Every error is one line that says what to do, and an exit status."""

import sys
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

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        """Runs the command and exits, unless ``standalone_mode`` is off."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)
        try:
            sys.exit(super().main(*args, standalone_mode=False, **kwargs) or 0)
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
