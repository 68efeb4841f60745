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


class Kind(enum.StrEnum):
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
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


CATALOGUE: dict[str, Metric] = {}
"""By name."""


def _add(kind: Kind, name: str, help: str, labels: str, buckets: tuple[float, ...] = ()) -> str:
    full = PREFIX + name
    CATALOGUE[full] = Metric(full, kind, help, tuple(labels.split()), buckets)
    return full


def _counter(name: str, help: str, labels: str = "") -> str:
    return _add(Kind.COUNTER, f"{name}_total", help, labels)


def _gauge(name: str, help: str, labels: str = "") -> str:
    return _add(Kind.GAUGE, name, help, labels)


def _histogram(name: str, help: str, buckets: tuple[float, ...]) -> str:
    return _add(Kind.HISTOGRAM, name, help, "", buckets)


# Servers.
TARGET_SERVERS = _gauge("target_servers", "Target servers that are alive: the largest SP degree.")
TARGET_SERVERS_CONFIGURED = _gauge(
    "target_servers_configured", "Target servers that there are to be."
)
TARGET_SERVERS_BUSY = _gauge("target_servers_busy", "Target servers that have work now.")
TARGET_SERVERS_REQUIRED = _gauge(
    "target_servers_required",
    "Target servers with which no verification of one request waits, at the lookahead in force "
    "(Equation 1).",
)
SERVER_UP = _gauge("server_up", "Whether a server is alive.", "server")
SERVER_BUSY_SECONDS = _counter(
    "server_busy_seconds", "Time in forwards, those that were stopped included.", "server"
)
SERVER_RESTARTS = _counter("server_restarts", "Servers that were started again after they died.")
SERVER_LOSSES = _counter("server_losses", "Deaths of a server.", "server")
MOVES = _counter("moves", "How often a request in flight got another target server.")
MOVED_TOKENS = _counter("moved_tokens", "Tokens that had to be computed again for that.")

# Work.
TARGET_BUSY_SECONDS = _counter(
    "target_busy_seconds",
    "Time of target servers in forwards, by what became of it: accepted, rejected (up to a wrong "
    "draft), unused (its path did not come true), cancelled (stopped before its end) or failed.",
    "outcome",
)
DRAFTER_BUSY_SECONDS = _counter(
    "drafter_busy_seconds", "Time of drafters in forwards, by what became of it.", "outcome"
)
TARGET_FORWARDS = _counter(
    "target_forwards",
    "Forwards of target servers for a request, by what became of them.",
    "outcome",
)
DRAFTER_FORWARDS = _counter(
    "drafter_forwards", "Forwards of drafters for a request, by what became of them.", "outcome"
)
WASTED_FORWARDS = _counter(
    "wasted_forwards", "Target forwards that gave the text nothing: unused, cancelled or failed."
)
TASKS = _gauge("tasks", "Tasks whose end was not heard.")
TASK_ENDS = _counter(
    "task_ends",
    "Tasks by how they ended: done, replaced, dropped, cancelled, failed or lost.",
    "role reason",
)
LATE_REPORTS = _counter(
    "late_reports", "Reports of work that had been replaced or cancelled already.", "role"
)
VERIFICATION_QUEUE_SECONDS = _histogram(
    "verification_queue_seconds",
    "From sending a task to a target server to the start of its forward: what ran before it, and "
    "messages.",
    (0.001, 0.0025, *SECONDS[:12]),
)
MESSAGES = _counter(
    "messages", "What crossed a process: calls, replies, items of event streams, cancellations."
)

# Drafts.
DRAFTED_TOKENS = _counter("drafted_tokens", "Tokens that drafters guessed.")
ACCEPTED_TOKENS = _counter("accepted_tokens", "Committed tokens that a drafter had guessed.")
REJECTED_TOKENS = _counter(
    "rejected_tokens", "Committed tokens in whose place drafters had guessed others only."
)
DRAFT_RUNS = _counter(
    "draft_runs", "Runs of accepted drafts, each up to a token that nobody had guessed."
)
ACCEPTED_AT_POSITION = _counter(
    "accepted_tokens_at_position",
    f"Accepted drafts by their position in the run, 0 to {POSITIONS - 1}.",
    "position",
)
ACCEPTANCE_RATE = _gauge("acceptance_rate", "Share of drafts that were right lately, 0 to 1.")
LOOKAHEAD = _gauge("lookahead", "Drafts in a verification task, for a request that is alone.")

# Latencies in force.
TARGET_FORWARD_SECONDS = _gauge("target_forward_seconds", "Mean time of a target forward lately.")
DRAFTER_FORWARD_SECONDS = _gauge(
    "drafter_forward_seconds", "Mean time of a drafter forward lately."
)
MESSAGE_SECONDS = _gauge("message_seconds", "Time of a message to a server, measured at the start.")

# Requests.
RUNNING_REQUESTS = _gauge("running_requests", "Generations in the group.")
ENDED_REQUESTS = _counter(
    "ended_requests", "Generations that were finished, abandoned or failed.", "outcome"
)
COMMITTED_TOKENS = _counter("committed_tokens", "Tokens that became part of a text.")
DECODED_TOKENS = _counter("decoded_tokens", "Tokens after the first of each text.")
DECODE_SECONDS = _counter(
    "decode_seconds", "From the first token of each text to its last: the time of decoded tokens."
)
TTFT_SECONDS = _histogram(
    "time_to_first_token_seconds",
    "From the coordinator's receipt of a generation to its first token.",
    SECONDS,
)
TPOT_SECONDS = _histogram(
    "time_per_output_token_seconds",
    "Of each generation the mean time of each token after the first.",
    SECONDS_PER_TOKEN,
)
GENERATION_SECONDS = _histogram(
    "generation_seconds",
    "From the coordinator's receipt of a generation to its last token.",
    SECONDS,
)

# KV caches.
KV_USED_BYTES = _gauge("kv_used_bytes", "KV cache of requests in flight.", "server")
KV_CACHED_BYTES = _gauge(
    "kv_cached_bytes",
    "KV cache that former requests left for the next with their prefix.",
    "server",
)
KV_BUDGET_BYTES = _gauge("kv_budget_bytes", "What the KV cache may take.", "server")
KV_COMPUTED_TOKENS = _counter("kv_computed_tokens", "Tokens that were computed.", "server")
KV_REUSED_TOKENS = _counter(
    "kv_reused_tokens", "Tokens that a forward found in its request's own KV cache.", "server"
)
KV_SHARED_TOKENS = _counter(
    "kv_shared_tokens", "Tokens that a forward found in another request's KV cache.", "server"
)
KV_EVICTIONS = _counter(
    "kv_evictions", "Blocks of former requests that made room for others.", "server"
)
KV_PREEMPTIONS = _counter(
    "kv_preemptions", "Requests in flight whose KV cache made room for others.", "server"
)
