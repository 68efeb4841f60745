"""What the documentation says of answers that are no plain success."""

from typing import Any

from dsi_ray.serving.schema.server import ErrorEnvelope

Responses = dict[int | str, dict[str, Any]]

STREAM: Responses = {
    200: {
        "description": "The answer; with stream: true its chunks as server-sent events.",
        "content": {"text/event-stream": {}},
    }
}

_DESCRIPTIONS = {
    400: "The request cannot be served as asked.",
    401: "No API key, or a wrong one.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is compressed.",
    429: "This client has too much here; the header Retry-After says when to come back.",
    500: "The server failed.",
    503: "The server is full or not ready; the header Retry-After says when to come back.",
    504: "The request took too long.",
}


def errors(*statuses: int) -> Responses:
    """Returns the documentation of these errors, and that all others look alike.

    With a ``default`` FastAPI does not promise the 422 that this server never gives.
    """
    described: Responses = {
        status: {"model": ErrorEnvelope, "description": _DESCRIPTIONS[status]}
        for status in statuses
    }
    return described | {"default": {"model": ErrorEnvelope, "description": "Any other error."}}
