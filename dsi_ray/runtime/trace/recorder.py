"""TraceRecorder: the traces of the last requests."""

from dsi_ray.config import Algorithm
from dsi_ray.core.decoders import Request
from dsi_ray.runtime.trace.record import RequestTrace

MAX_REQUESTS = 64


class TraceRecorder:
    """Keeps a trace for each of the last requests, in flight or over.

    Args:
        max_requests: How many are kept.
    """

    def __init__(self, max_requests: int = MAX_REQUESTS) -> None:
        self._max_requests = max_requests
        self._traces: dict[str, RequestTrace] = {}

    def open(self, request: Request, algorithm: Algorithm) -> RequestTrace:
        """Begins a trace, if need be in place of the oldest."""
        trace = self._traces[request.id] = RequestTrace(request, algorithm)
        if len(self._traces) > self._max_requests:
            del self._traces[next(iter(self._traces))]
        return trace

    def find(self, request: str) -> list[RequestTrace]:
        """The traces of a request, or of the parts of one: ``request/0``, ``request/1``."""
        part = f"{request}/"
        return [t for name, t in self._traces.items() if name == request or name.startswith(part)]
