"""What the server counts, for Prometheus: every metric's name and labels, in one place.

Labels have few values: routes, not paths; status codes; nothing that a client writes.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dsi_ray.runtime.request import RequestStats

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SECONDS_PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1)


class Metrics:
    """A registry of its own: Ray's and other libraries' metrics have theirs."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "dsi_ray_http_requests",
            "Answers by route and status.",
            ("endpoint", "status"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "dsi_ray_http_request_seconds",
            "From the request's arrival to the end of the answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "dsi_ray_generations_in_flight", "Generations now.", registry=registry
        )
        self.queued_requests = Gauge(
            "dsi_ray_queued_requests", "Requests that wait to be let in.", registry=registry
        )
        self.queue_seconds = Histogram(
            "dsi_ray_queue_wait_seconds",
            "What requests that were let in had waited for it.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.refused_requests = Counter(
            "dsi_ray_refused_requests",
            "Requests turned away unbegun, by reason: queue_full, client_limit or expired.",
            ("reason",),
            registry=registry,
        )
        self.prompt_tokens = Counter(
            "dsi_ray_prompt_tokens", "Tokens of prompts, for each choice.", registry=registry
        )
        self.completion_tokens = Counter(
            "dsi_ray_completion_tokens", "Tokens sent to clients.", registry=registry
        )
        self.ttft_seconds = Histogram(
            "dsi_ray_time_to_first_token_seconds",
            "From the start of a generation to its first token.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.tpot_seconds = Histogram(
            "dsi_ray_time_per_output_token_seconds",
            "Mean time of each token after the first.",
            buckets=_SECONDS_PER_TOKEN,
            registry=registry,
        )
        self._drafted = Counter(
            "dsi_ray_drafted_tokens", "Tokens that drafters guessed.", registry=registry
        )
        self._accepted = Counter(
            "dsi_ray_accepted_tokens", "Guessed tokens that came true.", registry=registry
        )

    def finished(self, stats: RequestStats) -> None:
        """Counts what a finished generation took."""
        if stats.completion_tokens > 1:
            self.tpot_seconds.observe(stats.tpot_ms / 1e3)
        self._drafted.inc(stats.drafted_tokens)
        self._accepted.inc(stats.accepted_tokens)

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self._registry)
