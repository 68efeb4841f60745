"""What several commands share: options, the client, a progress bar."""

from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

READY_S = 10.0
"""A server whose processes are to be killed is there already."""

ApiKey = Annotated[
    str | None, typer.Option(envvar="OPENAI_API_KEY", show_envvar=True, help="If it needs one.")
]
DsiRay = Annotated[str, typer.Option(help="Of a dsi-ray server on this machine.")]


def http_client(url: str, api_key: str | None) -> httpx.AsyncClient:
    """A client of the server at ``url``, with or without /v1."""
    return httpx.AsyncClient(
        base_url=url.rstrip("/").removesuffix("/v1"),
        headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        timeout=None,
        # No proxy of the environment reaches a server on the loopback.
        mounts={f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")},
    )


def progress_bar() -> Progress:
    """A bar whose tasks have a field ``failed``."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
