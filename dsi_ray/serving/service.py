"""What all requests share."""

import math

from dsi_ray.runtime.client.engine import Engine
from dsi_ray.serving.admission.aside import Aside
from dsi_ray.serving.admission.fair_queue import Limits
from dsi_ray.serving.admission.gate import Gate
from dsi_ray.serving.admission.lengths import OutputLengths
from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.metrics import ServiceMetrics


class Service:
    """The engine with its name, its limits and its figures.

    Attributes:
        engine: Generates.
        model_name: What requests call it.
        ingress: Which of several processes this is.
        metrics: Count what it does.
        gate: Bounds how much that is at once.
        lengths: Tell how long outputs are likely to be.
        aside: Tokenizes, off the event loop.
        timeout_s: The longest that a request may take, waiting included.
    """

    def __init__(self, engine: Engine, config: ServingConfig, ingress: int) -> None:
        self.engine = engine
        self.model_name = config.model_name
        self.ingress = ingress
        self.metrics = ServiceMetrics(ingress)
        each = config.num_ingress
        per_client = config.max_requests_per_client
        limits = Limits(
            math.ceil(config.max_requests / each),
            math.ceil(config.max_queued_requests / each),
            None if per_client is None else math.ceil(per_client / each),
            engine.kv_capacity // each,
        )
        self.gate = Gate(limits, self.metrics)
        self.lengths = OutputLengths()
        self.timeout_s = config.request_timeout_s
        waiting = limits.generations + limits.queued
        self.aside = Aside(waiting, limits.per_client, self.metrics)

    def check_model(self, name: str, param: str | None = None) -> None:
        """Checks that ``name`` is the model that is served.

        Raises:
            ApiError: It is not.
        """
        if name != self.model_name:
            raise ApiError(
                404,
                f"The model {name[:200]!r} does not exist; this server has {self.model_name!r}.",
                param=param,
                code="model_not_found",
            )
