"""What the HTTP server counts, for Prometheus: every metric's name and labels, in one place.

What the groups count is in ``runtime/metrics/catalogue.py``. Labels have few values: routes, not
paths; status codes; nothing that a client writes.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from dsi_ray.runtime.metrics.catalogue import SECONDS
from dsi_ray.serving.admission.fair_queue import RefusalReason


class ServiceMetrics:
    """A registry of its own: Ray's and other libraries' metrics have theirs.

    Args:
        ingress: Which of several processes that count for themselves this is. It becomes a label,
            as each scrape may hit another.
    """

    def __init__(self, ingress: int) -> None:
        self._registry = registry = _Labelled("ingress", str(ingress))
        self.requests = Counter(
            "dsi_ray_http_requests",
            "Answers, by route and HTTP status.",
            ("endpoint", "status"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "dsi_ray_http_request_seconds",
            "Time from the arrival of a request to the end of its answer.",
            ("endpoint",),
            buckets=SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "dsi_ray_generations_in_flight", "Generations that are running.", registry=registry
        )
        self.queued_requests = Gauge(
            "dsi_ray_queued_requests", "Requests that wait in the queue.", registry=registry
        )
        self.queue_seconds = Histogram(
            "dsi_ray_queue_wait_seconds",
            "Time that admitted requests waited in the queue.",
            buckets=SECONDS,
            registry=registry,
        )
        self.refused_requests = Counter(
            "dsi_ray_refused_requests",
            "Requests refused before they began, by reason: queue_full, client_limit, or expired "
            "(the request's time was over while it waited).",
            ("reason",),
            registry=registry,
        )
        for reason in RefusalReason:
            # From 0: who looks at a counter's growth would not see the first event otherwise.
            self.refused_requests.labels(reason)
        self.prompt_tokens = Counter(
            "dsi_ray_prompt_tokens",
            "Tokens of prompts, counted once for each choice.",
            registry=registry,
        )
        self.completion_tokens = Counter(
            "dsi_ray_completion_tokens", "Tokens that were sent to clients.", registry=registry
        )

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self._registry)


class _Labelled(CollectorRegistry):
    """A registry that gives all its samples one more label."""

    def __init__(self, label: str, value: str) -> None:
        super().__init__()
        self._label = {label: value}

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [
                sample._replace(labels={**sample.labels, **self._label})
                for sample in metric.samples
            ]
            yield metric
