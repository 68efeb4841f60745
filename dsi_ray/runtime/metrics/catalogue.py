"""Every metric of a group: name, kind, labels and what it means.

Labels have few values: servers, outcomes, positions; nothing that a client writes. Ray's Prometheus
has these metrics under the same names behind ``ray_``.
"""

import enum
from dataclasses import dataclass

PREFIX = "dsi_ray_"

POSITIONS = 16
"""Positions in a run of accepted drafts that are counted one by one."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
SECONDS_PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1)


class MetricKind(enum.StrEnum):
    """Prometheus' kinds."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of time series.

    Attributes:
        name: With its unit; that of a counter ends in ``_total``.
        kind: Prometheus' kind.
        help: What it means.
        labels: Their names.
        buckets: Upper bounds, of a histogram.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


CATALOGUE: dict[str, Metric] = {}
"""By name."""


def _add(
    kind: MetricKind, name: str, help: str, labels: str, buckets: tuple[float, ...] = ()
) -> str:
    full = PREFIX + name
    CATALOGUE[full] = Metric(full, kind, help, tuple(labels.split()), buckets)
    return full


def _counter(name: str, help: str, labels: str = "") -> str:
    return _add(MetricKind.COUNTER, f"{name}_total", help, labels)


def _gauge(name: str, help: str, labels: str = "") -> str:
    return _add(MetricKind.GAUGE, name, help, labels)


def _histogram(name: str, help: str, buckets: tuple[float, ...]) -> str:
    return _add(MetricKind.HISTOGRAM, name, help, "", buckets)


# Servers.
TARGET_SERVERS = _gauge(
    "target_servers",
    "Target servers that are alive: the highest SP degree that a request can have.",
)
TARGET_SERVERS_CONFIGURED = _gauge(
    "target_servers_configured", "Target servers that the configuration asks for."
)
TARGET_SERVERS_BUSY = _gauge("target_servers_busy", "Target servers that are working now.")
TARGET_SERVERS_REQUIRED = _gauge(
    "target_servers_required",
    "SP degree that Equation 1 asks for, at the current latencies and lookahead: with fewer target "
    "servers, verifications of a request wait for each other.",
)
SERVER_UP = _gauge("server_up", "1 while a server is alive, else 0.", "server")
SERVER_BUSY_SECONDS = _counter(
    "server_busy_seconds",
    "Time that a server spent in forwards, those that were stopped early included.",
    "server",
)
SERVER_RESTARTS = _counter("server_restarts", "Servers that were restarted after they died.")
SERVER_LOSSES = _counter("server_losses", "How often a server died.", "server")
MOVES = _counter(
    "moves",
    "How often a running request was given another target server, because one died or because "
    "servers were shared out anew.",
)
MOVED_TOKENS = _counter(
    "moved_tokens", "Tokens that target servers had to compute again because requests moved."
)

# Work.
TARGET_BUSY_SECONDS = _counter(
    "target_busy_seconds",
    "Time that target servers spent in forwards, by outcome: accepted (their tokens were "
    "committed), rejected (they found a wrong draft, and the target's token was committed in its "
    "place), unused (their branch was dropped), cancelled (stopped early) or failed.",
    "outcome",
)
DRAFTER_BUSY_SECONDS = _counter(
    "drafter_busy_seconds",
    "Time that drafters spent in forwards, by outcome, as for target_busy_seconds.",
    "outcome",
)
TARGET_FORWARDS = _counter(
    "target_forwards",
    "Forwards of target servers, by outcome, as for target_busy_seconds. A forward for several "
    "requests counts once for each.",
    "outcome",
)
DRAFTER_FORWARDS = _counter(
    "drafter_forwards",
    "Forwards of drafters, by outcome; a forward for several requests counts once for each.",
    "outcome",
)
WASTED_FORWARDS = _counter(
    "wasted_forwards",
    "Forwards of target servers that contributed nothing to a text: unused, cancelled or failed.",
)
TASKS = _gauge("tasks", "Tasks that were sent to servers and have not ended.")
TASK_ENDS = _counter(
    "task_ends",
    "Tasks that ended, by reason: done, replaced (by a newer task), dropped (it did not fit what "
    "the server had found), cancelled, failed, or lost (the server died).",
    "role reason",
)
LATE_REPORTS = _counter(
    "late_reports", "Results that arrived after their task had been replaced or cancelled.", "role"
)
VERIFICATION_QUEUE_SECONDS = _histogram(
    "verification_queue_seconds",
    "Time from sending a task to a target server until its forward starts: the message, and what "
    "the server computed first.",
    (0.001, 0.0025, *SECONDS[:12]),
)
MESSAGES = _counter(
    "messages",
    "Messages between processes: frames of lanes, or calls, replies, stream items and "
    "cancellations.",
)

# Drafts.
DRAFTED_TOKENS = _counter("drafted_tokens", "Tokens that drafters drafted.")
ACCEPTED_TOKENS = _counter(
    "accepted_tokens", "Drafted tokens that were accepted, and so committed."
)
REJECTED_TOKENS = _counter(
    "rejected_tokens", "Committed tokens for whose position drafters had drafted only other tokens."
)
DRAFT_RUNS = _counter(
    "draft_runs",
    "Runs of accepted drafts; a run ends with a committed token that no drafter had drafted.",
)
ACCEPTED_AT_POSITION = _counter(
    "accepted_tokens_at_position",
    f"Accepted drafts by position in their run, 0 to {POSITIONS - 1}; divided by draft_runs, the "
    "share of runs that got that far.",
    "position",
)
ACCEPTANCE_RATE = _gauge("acceptance_rate", "Share of recent drafts that were right, 0 to 1.")
LOOKAHEAD = _gauge(
    "lookahead", "Drafts in a verification task, as planned for a request that has all servers."
)

# Latencies in force.
TARGET_FORWARD_SECONDS = _gauge("target_forward_seconds", "Recent mean time of a target forward.")
DRAFTER_FORWARD_SECONDS = _gauge(
    "drafter_forward_seconds", "Recent mean time of a drafter forward."
)
MESSAGE_SECONDS = _gauge(
    "message_seconds", "Time of a message to a server, as measured when the group started."
)

# Requests.
RUNNING_REQUESTS = _gauge("running_requests", "Generations that the group is running.")
ENDED_REQUESTS = _counter(
    "ended_requests",
    "Generations that ended, by outcome: finished, abandoned (the client left) or failed.",
    "outcome",
)
COMMITTED_TOKENS = _counter("committed_tokens", "Tokens that were committed to a text.")
DECODED_TOKENS = _counter(
    "decoded_tokens",
    "Committed tokens except the first of each text; divide by decode_seconds for the speed.",
)
DECODE_SECONDS = _counter(
    "decode_seconds",
    "Time from the first token of each text to its last, in which the decoded tokens came.",
)
TTFT_SECONDS = _histogram(
    "time_to_first_token_seconds",
    "Time from the coordinator's receipt of a generation to its first token.",
    SECONDS,
)
TPOT_SECONDS = _histogram(
    "time_per_output_token_seconds",
    "Mean time of a token after the first, for each generation.",
    SECONDS_PER_TOKEN,
)
GENERATION_SECONDS = _histogram(
    "generation_seconds",
    "Time from the coordinator's receipt of a generation to its last token, if it finished.",
    SECONDS,
)

# KV caches.
KV_USED_BYTES = _gauge("kv_used_bytes", "KV cache that running requests hold.", "server")
KV_CACHED_BYTES = _gauge(
    "kv_cached_bytes",
    "KV cache of finished requests, kept for requests with the same prefix until it is evicted.",
    "server",
)
KV_BUDGET_BYTES = _gauge("kv_budget_bytes", "Largest size of the KV cache.", "server")
KV_COMPUTED_TOKENS = _counter("kv_computed_tokens", "Tokens that forwards computed.", "server")
KV_REUSED_TOKENS = _counter(
    "kv_reused_tokens", "Tokens that forwards found in their own request's KV cache.", "server"
)
KV_SHARED_TOKENS = _counter(
    "kv_shared_tokens",
    "Tokens that forwards found in another request's KV cache (prefix cache hits).",
    "server",
)
KV_EVICTIONS = _counter(
    "kv_evictions", "Blocks of finished requests that were evicted to make room.", "server"
)
KV_PREEMPTIONS = _counter(
    "kv_preemptions",
    "Running requests that were preempted: their KV cache made room, and is computed again later.",
    "server",
)
