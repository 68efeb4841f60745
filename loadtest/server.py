"""What a server says about itself: whether it is ready, its version and its counters."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, ConfigDict

from loadtest.clock import Clock
from loadtest.errors import LoadTestError

_POLL_S = 0.5


class ServerFigures(BaseModel):
    """What the server's own counters say of the window; None for what it does not report.

    Attributes:
        sp_utilisation: Busy time of the target servers over the window and their number.
        target_forwards_per_token: Forwards of all target servers over the tokens sent to clients.
        wasted_forwards_share: Of the target forwards, those cancelled or with no accepted token.
        messages_per_token: What crossed a process.
        acceptance_rate: Of the drafted tokens, those accepted; failed requests included.
        drafted_tokens: Tokens that drafters guessed.
        accepted_tokens: Of these, accepted ones.
        target_forwards: Of all target servers.
        kv_evictions: Sessions whose cache was dropped.
        queue_wait_s: Mean time that requests waited for their turn.
        refused_requests: Turned away unbegun.
    """

    model_config = ConfigDict(frozen=True)

    sp_utilisation: float | None = None
    target_forwards_per_token: float | None = None
    wasted_forwards_share: float | None = None
    messages_per_token: float | None = None
    acceptance_rate: float | None = None
    drafted_tokens: float | None = None
    accepted_tokens: float | None = None
    target_forwards: float | None = None
    kv_evictions: float | None = None
    queue_wait_s: float | None = None
    refused_requests: float | None = None


Counters = Mapping[str, float]
"""Values by name, summed over all labels; empty where the server has no metrics."""


def parse_metrics(text: str) -> Counters:
    """Reads Prometheus' text format; sums each sample's values over its labels."""
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
    return values


def server_figures(before: Counters, after: Counters, seconds: float) -> ServerFigures:
    """Computes what happened between two scrapes that are ``seconds`` apart.

    A counter that was set back meanwhile is not reported.
    """

    def delta(name: str, suffix: str = "total") -> float | None:
        full = f"dsi_ray_{name}_{suffix}"
        if not before or full not in after:
            return None
        # A counter with labels is there only after its first event.
        change = after[full] - before.get(full, 0.0)
        return change if change >= 0 else None

    drafted, accepted = delta("drafted_tokens"), delta("accepted_tokens")
    forwards, tokens = delta("target_forwards"), delta("completion_tokens")
    servers = after.get("dsi_ray_target_servers")
    available = None if servers is None else servers * seconds
    return ServerFigures(
        sp_utilisation=_ratio(delta("target_busy_seconds"), available),
        target_forwards_per_token=_ratio(forwards, tokens),
        wasted_forwards_share=_ratio(delta("wasted_forwards"), forwards),
        messages_per_token=_ratio(delta("messages"), tokens),
        acceptance_rate=_ratio(accepted, drafted),
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        target_forwards=forwards,
        kv_evictions=delta("kv_evictions"),
        queue_wait_s=_ratio(
            delta("queue_wait_seconds", "sum"), delta("queue_wait_seconds", "count")
        ),
        refused_requests=delta("refused_requests"),
    )


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _advice(status: int) -> str:
    if status == httpx.codes.UNAUTHORIZED:
        return "give the server's key with --api-key or in OPENAI_API_KEY"
    return "is the address right?"


async def wait_until_ready(http: httpx.AsyncClient, timeout_s: float) -> str:
    """Waits for ``/v1/models`` and returns the first model's name.

    Raises:
        LoadTestError: The server refuses, or was not ready in time.
    """
    clock = Clock()
    models = http.base_url.join("v1/models")
    while True:
        try:
            response = await http.get(models)
            if response.is_success:
                return str(response.json()["data"][0]["id"])
            problem = f"HTTP {response.status_code}"
            if response.status_code < 500:
                raise LoadTestError(f"{models}: {problem}; {_advice(response.status_code)}")
        except httpx.TransportError as error:
            problem = str(error)
        except (ValueError, LookupError, TypeError) as error:
            raise LoadTestError(f"{models} lists no models") from error
        if clock.now() >= timeout_s:
            raise LoadTestError(f"{http.base_url} was not ready in {timeout_s:g} s: {problem}")
        await asyncio.sleep(_POLL_S)


async def version(http: httpx.AsyncClient) -> Any:
    """Returns what ``/version`` says; None where the server has no such path."""
    return await _optional(http, "/version", httpx.Response.json)


async def scrape(http: httpx.AsyncClient) -> Counters:
    """Reads ``/metrics``; nothing where the server has no such path."""
    return await _optional(http, "/metrics", lambda response: parse_metrics(response.text)) or {}


async def _optional(
    http: httpx.AsyncClient, path: str, read: Callable[[httpx.Response], Any]
) -> Any:
    try:
        response = await http.get(path)
        return read(response) if response.is_success else None
    except (httpx.TransportError, ValueError):
        return None
