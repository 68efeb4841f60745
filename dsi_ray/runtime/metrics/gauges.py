"""What is read off a group's status: gauges, and what the servers themselves count."""

from collections.abc import Mapping
from typing import Any

from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.snapshot import Key

_OF_CACHE = {
    "bytes": names.KV_USED_BYTES,
    "cached_bytes": names.KV_CACHED_BYTES,
    "budget_bytes": names.KV_BUDGET_BYTES,
    "computed_tokens": names.KV_COMPUTED_TOKENS,
    "reused_tokens": names.KV_REUSED_TOKENS,
    "shared_tokens": names.KV_SHARED_TOKENS,
    "evictions": names.KV_EVICTIONS,
    "preemptions": names.KV_PREEMPTIONS,
}


def state_of(status: Mapping[str, Any]) -> dict[Key, float]:
    """The values that a group's status holds."""
    targets = status["targets"]
    values: dict[Key, float] = {
        (names.TARGET_SERVERS,): targets["alive"],
        (names.TARGET_SERVERS_CONFIGURED,): targets["configured"],
        (names.TARGET_SERVERS_BUSY,): targets["busy"],
        (names.TARGET_SERVERS_REQUIRED,): targets["required"],
        (names.RUNNING_REQUESTS,): status["requests"],
        (names.TASKS,): status["tasks"],
        (names.SERVER_RESTARTS,): status["restarts"],
        (names.MOVES,): status["moves"],
        (names.MOVED_TOKENS,): status["moved_tokens"],
        (names.TARGET_FORWARD_SECONDS,): status["target_ms"] / 1e3,
        (names.DRAFTER_FORWARD_SECONDS,): status["drafter_ms"] / 1e3,
        (names.MESSAGE_SECONDS,): status["message_ms"] / 1e3,
        (names.ACCEPTANCE_RATE,): status["acceptance_rate"],
        (names.LOOKAHEAD,): status["lookahead"],
    }
    for server in status["servers"]:
        values[names.SERVER_UP, server["server"]] = 1
        for field, name in _OF_CACHE.items():
            values[name, server["server"]] = server["cache"][field]
    for server in (*status["lost"], *status["suspected"]):
        values[names.SERVER_UP, server] = 0
    return values
