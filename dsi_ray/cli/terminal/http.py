"""HTTP clients of the commands."""

import httpx

_DIRECT = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}
"""No proxy reaches a server on the loopback, whatever ``http_proxy`` says."""


def http_client(url: str, timeout_s: float) -> httpx.Client:
    """Returns a client of the server at ``url``."""
    return httpx.Client(base_url=url, timeout=timeout_s, mounts=_DIRECT)
