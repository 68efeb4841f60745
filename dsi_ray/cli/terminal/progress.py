"""What a waiting user sees, on stderr and only on a terminal."""

from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import Progress


def starting() -> AbstractContextManager[object]:
    """A line that stays while the block runs."""
    return Console(stderr=True).status("Starting Ray and loading the models ...")


def progress_bar() -> Progress:
    """A bar that goes away when it is full."""
    return Progress(console=Console(stderr=True), transient=True)
