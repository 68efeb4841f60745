"""``GET /v1/traces/{request_id}``: what each server did for a request, for people's viewers."""

import json
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import Response

from dsi_ray.runtime.client.engine import Engine
from dsi_ray.runtime.trace.chrome import ChromeTrace, chrome_trace
from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.routes.documented import errors

Since = Annotated[int, Query(ge=0, le=2**53, description="Leave out what ended before.")]


def install_traces(app: FastAPI, engine: Engine) -> None:
    """Adds the route."""

    @app.get(
        "/v1/traces/{request_id}",
        response_model=ChromeTrace,
        responses=errors(400, 401, 404, 500),
    )
    async def get_trace(request_id: str, since_us: Since = 0) -> Response:
        """The timeline of a completion, by its id, in the Trace Event Format.

        The file opens in https://ui.perfetto.dev. The completion may still run: ask again, with the
        `settled_us` of the last answer as `since_us`, for what is new or has changed since. Only
        the last requests are kept.
        """
        traces = await engine.trace(request_id, since_us / 1e6)
        if not traces:
            raise ApiError(
                404,
                f"There is no trace of {request_id[:200]!r}; only those of the last requests are "
                "kept.",
                param="request_id",
                code="trace_not_found",
            )
        # By hand: to validate thousands of events would take longer than to make them.
        body = json.dumps(chrome_trace(traces), separators=(",", ":"))
        headers = {"cache-control": "no-store"}
        return Response(body, media_type="application/json", headers=headers)
