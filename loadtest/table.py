"""Which figures are shown, in which order and how: for the terminal, the page and comparisons."""

from dataclasses import dataclass
from typing import Any

from loadtest.summary import Point


@dataclass(frozen=True, slots=True)
class Row:
    """A figure.

    Attributes:
        label: Its name.
        path: Where it is in a point, as a dotted path.
        form: How to write it.
    """

    label: str
    path: str
    form: str

    def value(self, point: Point) -> Any:
        """The figure; None if it is not known."""
        return find(point, self.path)

    def text(self, point: Point, unknown: str = "-") -> str:
        """The figure as people read it."""
        value = self.value(point)
        return unknown if value is None else format(value, self.form)


def find(point: Point, path: str) -> Any:
    """Returns what is at a dotted path in a point; None if something on the way is not known."""
    value: Any = point
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


CLIENT = (
    Row("requests", "figures.requests", "d"),
    Row("failed", "figures.failed", "d"),
    Row("window s", "figures.window_s", ".1f"),
    Row("requests/s", "figures.requests_per_s", ".2f"),
    Row("output tokens/s", "figures.output_tokens_per_s", ".1f"),
    Row("goodput requests/s", "figures.goodput.requests_per_s", ".2f"),
    Row("goodput share", "figures.goodput.share", ".1%"),
    Row("prompt tokens", "figures.prompt_tokens", "d"),
    Row("output tokens", "figures.completion_tokens", "d"),
    Row("tokens/chunk", "figures.tokens_per_chunk", ".2f"),
    Row("most in flight", "figures.most_in_flight", "d"),
    Row("most unsent", "figures.most_unsent", "d"),
    Row("accepted/drafted", "figures.acceptance_rate", ".1%"),
    Row("mean acceptance length", "figures.mean_acceptance_length", ".2f"),
    Row("Retry-After s, mean", "figures.retry_after_s.mean", ".1f"),
)
"""What the client saw, but for the distributions."""

SERVER = (
    Row("SP utilisation", "server.sp_utilisation", ".1%"),
    Row("target forwards/token", "server.target_forwards_per_token", ".2f"),
    Row("wasted forwards", "server.wasted_forwards_share", ".1%"),
    Row("messages/token", "server.messages_per_token", ".1f"),
    Row("accepted/drafted", "server.acceptance_rate", ".1%"),
    Row("drafted tokens", "server.drafted_tokens", ".0f"),
    Row("accepted tokens", "server.accepted_tokens", ".0f"),
    Row("target forwards", "server.target_forwards", ".0f"),
    Row("KV evictions", "server.kv_evictions", ".0f"),
    Row("queue wait s, mean", "server.queue_wait_s", ".3f"),
    Row("refused requests", "server.refused_requests", ".0f"),
)
"""What the server counted over the same window."""

NOT_REPORTED = "not reported by this server"
STATISTICS = ("mean", "p50", "p90", "p99")


def _spread(label: str, name: str, form: str) -> tuple[str, tuple[Row, ...]]:
    return label, tuple(Row(f"{label} {s}", f"figures.{name}.{s}", form) for s in STATISTICS)


DISTRIBUTIONS = dict(
    [
        _spread("TTFT ms", "ttft_ms", ".1f"),
        _spread("TPOT ms", "tpot_ms", ".2f"),
        _spread("chunk-gap ITL ms", "chunk_gap_ms", ".2f"),
        _spread("end to end ms", "e2e_ms", ".1f"),
        _spread("send lag ms", "send_lag_ms", ".2f"),
    ]
)
"""By name, the rows of each distribution: one for each of ``STATISTICS``."""

OVERVIEW = (
    Row("failed", "figures.failed", "d"),
    Row("req/s", "figures.requests_per_s", ".2f"),
    Row("tok/s", "figures.output_tokens_per_s", ".1f"),
    Row("goodput", "figures.goodput.share", ".0%"),
    Row("TTFT p50 ms", "figures.ttft_ms.p50", ".0f"),
    Row("TTFT p99 ms", "figures.ttft_ms.p99", ".0f"),
    Row("TPOT p50 ms", "figures.tpot_ms.p50", ".1f"),
    Row("TPOT p99 ms", "figures.tpot_ms.p99", ".1f"),
    Row("E2E p99 ms", "figures.e2e_ms.p99", ".0f"),
)
"""What to look at first."""
