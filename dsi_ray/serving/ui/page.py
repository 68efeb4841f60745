"""The page at ``/``: files of this package, sent with headers that let nothing else in."""

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # The files change with the version of the server.
    "cache-control": "no-cache",
}


def install_page(app: FastAPI) -> None:
    """Adds a route for each file; ``index.html`` is ``/``."""
    for file in sorted(_FOLDER.iterdir()):
        is_index = file.name == "index.html"
        _add(app, "/" if is_index else f"/static/{file.name}", file)


def _add(app: FastAPI, path: str, file: Path) -> None:
    body, media_type = file.read_bytes(), _TYPES[file.suffix]

    async def get() -> Response:
        return Response(body, media_type=media_type, headers=_HEADERS)

    app.add_api_route(path, get, methods=["GET", "HEAD"], include_in_schema=False)
