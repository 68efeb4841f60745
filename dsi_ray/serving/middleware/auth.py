"""API keys: who may use the server."""

import hashlib
import hmac
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dsi_ray.config import ConfigError
from dsi_ray.serving.client import client
from dsi_ray.serving.errors import ApiError

KEYS_VARIABLE = "DSI_RAY_API_KEYS"
"""Environment variable with keys, separated by commas."""


def read_keys(file: Path | None) -> frozenset[bytes]:
    """Returns the digests of the keys in ``file``, one a line, and in the environment.

    Digests, because they travel and are kept; the keys themselves are not. None at all lets
    everybody in.

    Raises:
        ConfigError: The file cannot be read, or a place that should have keys has none.
    """
    digests: set[bytes] = set()
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"api_key_file: cannot read {file}: {error}") from error
        digests |= _digests(lines, str(file))
    if (keys := os.environ.get(KEYS_VARIABLE)) is not None:
        try:
            text = os.fsencode(keys).decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{KEYS_VARIABLE}: the keys must be UTF-8: {error}") from error
        digests |= _digests(text.split(","), KEYS_VARIABLE)
    return frozenset(digests)


def _digests(keys: Iterable[str], source: str) -> set[bytes]:
    digests = {_digest(key.encode()) for line in keys if (key := line.strip())}
    if not digests:
        raise ConfigError(f"{source} holds no API key: add one, or do not use it")
    return digests


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class Auth:
    """Asks for a key, except for paths that are open."""

    def __init__(self, app: ASGIApp, keys: Collection[bytes], open_paths: Collection[str]) -> None:
        self._app = app
        self._keys = keys
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        given = _bearer(Headers(scope=scope))
        if given is not None and self._knows(given):
            client.set(_digest(given))
            await self._app(scope, receive, send)
            return
        problem = "No API key given" if given is None else "Incorrect API key"
        error = ApiError(
            401,
            f"{problem}: send one as 'Authorization: Bearer KEY'.",
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )
        await error.response()(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        """An open path opens what is below it too."""
        return any(path == open or path.startswith(f"{open}/") for open in self._open_paths)

    def _knows(self, key: bytes) -> bool:
        """Compares with every key, in the same time whichever it is."""
        digest = _digest(key)
        matches = [hmac.compare_digest(digest, known) for known in self._keys]
        return any(matches)


def _bearer(headers: Headers) -> bytes | None:
    """The key as its bytes: a key of other letters than ASCII is sent as UTF-8."""
    kind, _, key = headers.get("authorization", "").encode("latin-1").partition(b" ")
    key = key.strip(b" \t")
    return key if kind.lower() == b"bearer" and key else None
