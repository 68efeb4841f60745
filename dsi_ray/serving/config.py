"""What is served, and where."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from dsi_ray.config import EngineConfig


class ServingConfig(EngineConfig):
    """An engine and its HTTP address. One YAML serves ``--config`` and Serve's ``args``.

    Attributes:
        host: Address to listen on; ``0.0.0.0`` makes the server public.
        port: Port to listen on.
        served_model_name: The ``model`` of requests; None derives it from the target.
        api_key_file: File with one API key a line. Keys in the environment variable
            ``DSI_RAY_API_KEYS`` (separated by commas) count too. Without any, no key is needed.
        open_paths: Paths, with all below them, that need no key.
        num_ingress: Number of processes that speak HTTP, all alike, each with its share of the
            limits below. With two or more the service goes on when one dies.
        max_requests: Most generations at once, counting each choice; further requests wait.
        max_queued_requests: Most requests that wait; more get 503.
        max_requests_per_client: Most generations of one client, running and waiting; more get 429.
            A client is an API key, or without keys an address. None is no limit.
        max_body_bytes: Largest body of a request; larger ones get 413.
        body_timeout_s: The longest that a body may take to arrive; then it gets 408.
        request_timeout_s: The longest that a request may take; then it gets 504, or a stream ends
            with an error. Where that time has gone in waiting it gets 503.
        shutdown_timeout_s: What requests in flight get to end when the server stops.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    served_model_name: Annotated[str, Field(min_length=1)] | None = None
    api_key_file: Path | None = None
    open_paths: tuple[str, ...] = (
        "/",
        "/static",
        "/docs",
        "/openapi.json",
        "/health",
        "/metrics",
        "/version",
    )
    num_ingress: Annotated[int, Field(ge=1)] = 1
    max_requests: Annotated[int, Field(ge=1)] = 256
    max_queued_requests: Annotated[int, Field(ge=0)] = 256
    max_requests_per_client: Annotated[int, Field(ge=1)] | None = None
    max_body_bytes: Annotated[int, Field(ge=1)] = 2**23
    body_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    request_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    shutdown_timeout_s: Annotated[float, Field(ge=0)] = 30.0

    @property
    def max_bodies(self) -> int:
        """How many bodies may arrive at once: as many as requests may then run and wait."""
        return self.max_requests + self.max_queued_requests

    @property
    def model_name(self) -> str:
        """The name that requests give: a directory's or file's last part, or the hub id."""
        if self.served_model_name is not None:
            return self.served_model_name
        path = Path(self.target.model)
        return path.resolve().name if path.exists() else self.target.model
