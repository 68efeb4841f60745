"""What the HTTP server counts, for Prometheus: every metric's name and labels, in one place.

What the groups count is in ``runtime/metrics/catalogue.py``. Labels have few values: routes, not
paths; status codes; nothing that a client writes.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dsi_ray.runtime.metrics.catalogue import SECONDS
from dsi_ray.serving.fair_queue import Reason


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
            buckets=SECONDS,
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
            buckets=SECONDS,
            registry=registry,
        )
        self.refused_requests = Counter(
            "dsi_ray_refused_requests",
            "Requests turned away unbegun, by reason: queue_full, client_limit or expired.",
            ("reason",),
            registry=registry,
        )
        for reason in Reason:
            # From 0: who looks at a counter's growth would not see the first event otherwise.
            self.refused_requests.labels(reason)
        self.prompt_tokens = Counter(
            "dsi_ray_prompt_tokens", "Tokens of prompts, for each choice.", registry=registry
        )
        self.completion_tokens = Counter(
            "dsi_ray_completion_tokens", "Tokens sent to clients.", registry=registry
        )

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self._registry)
