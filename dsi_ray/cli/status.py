"""``dsi-ray status``."""

import time
from collections import defaultdict
from typing import Annotated, Any

import httpx
import typer

from dsi_ray.cli.terminal.http import http_client
from dsi_ray.cli.terminal.json_file import STDOUT, JsonFile, check_writable, write_json
from dsi_ray.cli.terminal.status_view import print_status
from dsi_ray.config import ConfigError
from dsi_ray.runtime.errors import EngineError

_TIMEOUT_S = 10.0


def command(
    url: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:8000",
    seconds: Annotated[
        float, typer.Option(help="How long to watch; shares and rates are of that time.", min=0.1)
    ] = 1.0,
    json_file: JsonFile = None,
) -> None:
    """Show what a running server is doing.

    Shows each server's share of time in forwards, the SP degree in use, how many drafts are right,
    how many requests wait, what the KV caches hold, and the last faults. It reads /health and
    /metrics, which need no API key unless the server's open_paths say otherwise.

    \b
    dsi-ray status
    dsi-ray status --url http://llm.example.com --seconds 10
    dsi-ray status --json | jq .groups[0].sp_utilisation
    """
    check_writable(json_file)
    try:
        with http_client(url, _TIMEOUT_S) as http:
            figures = read_status(http, seconds)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ConfigError(f"--url {url} is no address: {error}") from error
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise EngineError(
            f"no server answers at {url} ({reason}): start one with dsi-ray serve, or give --url"
        ) from error
    if json_file != STDOUT:
        print_status(url, figures)
    write_json(figures, json_file)


def read_status(http: httpx.Client, seconds: float) -> dict[str, Any]:
    """What the server says of itself; of each group also what grew in ``seconds`` from now.

    Raises:
        EngineError: The answer is not that of a server of this kind.
    """
    before, started = _metrics(http), time.monotonic()
    time.sleep(seconds)
    after, passed = _metrics(http), time.monotonic() - started
    health = _get(http, "/health").json()
    return {
        **{key: health[key] for key in ("status", "model", "load")},
        "seconds": passed,
        "groups": [
            {**group, **growth(before.get(str(index), {}), after.get(str(index), {}), passed)}
            for index, group in enumerate(health["groups"])
        ],
    }


Samples = dict[tuple[str, str], float]
"""Values of one group by name and by the label that is shown, of all others summed."""

_SHOWN = ("server", "outcome")


def growth(before: Samples, after: Samples, seconds: float) -> dict[str, Any]:
    """Shares and rates between two scrapes that are ``seconds`` apart; None without an event."""

    def grown(name: str, label: str = "") -> float:
        key = f"dsi_ray_{name}", label
        return max(0.0, after.get(key, 0.0) - before.get(key, 0.0))

    servers = after.get(("dsi_ray_target_servers", ""), 0.0)
    busy = {
        label: grown("server_busy_seconds_total", label)
        for name, label in after
        if name == "dsi_ray_server_busy_seconds_total"
    }
    of_targets = sum(value for label, value in busy.items() if label.startswith("target-"))
    useful = sum(grown("target_busy_seconds_total", how) for how in ("accepted", "rejected"))
    accepted, rejected = grown("accepted_tokens_total"), grown("rejected_tokens_total")
    return {
        "busy_share": {label: value / seconds for label, value in busy.items()},
        "sp_utilisation": _ratio(of_targets, servers * seconds),
        "useful_sp_utilisation": _ratio(useful, servers * seconds),
        "acceptance": _ratio(accepted, accepted + rejected),
        "tokens_per_s": grown("committed_tokens_total") / seconds,
    }


def _metrics(http: httpx.Client) -> dict[str, Samples]:
    """The samples of each group."""
    # It takes a part of the time of every command's start.
    from prometheus_client.parser import text_string_to_metric_families

    found: defaultdict[str, Samples] = defaultdict(dict)
    for family in text_string_to_metric_families(_get(http, "/metrics").text):
        for name, labels, value, *_ in family.samples:
            key = name, next((labels[key] for key in _SHOWN if key in labels), "")
            group = found[labels.get("group", "")]
            group[key] = group.get(key, 0.0) + value
    return found


def _get(http: httpx.Client, path: str) -> httpx.Response:
    answer = http.get(path)
    # A server that is not healthy says so with 503, and why.
    if answer.is_success or (answer.status_code == 503 and path == "/health"):
        return answer
    raise EngineError(f"{http.base_url}{path.lstrip('/')} answers with HTTP {answer.status_code}")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
