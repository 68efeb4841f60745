"""Errors as OpenAI's clients expect them: an envelope of message, type, param and code."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dsi_ray.runtime.errors import GroupLost, RequestError, RequestFailed
from dsi_ray.serving.middleware.request_id import request_id
from dsi_ray.serving.schema.fields import UNSUPPORTED
from dsi_ray.serving.schema.server import ErrorDetail, ErrorEnvelope

_LOGGER = logging.getLogger(__name__)
_TYPES = {429: "requests"}
"""What OpenAI calls the errors of statuses that are neither a bad request nor a failure."""

_CODES = {UNSUPPORTED: UNSUPPORTED, "extra_forbidden": "unknown_parameter"}
"""Codes of the validation errors that have one."""

_LOST_RETRY_AFTER_S = 5
"""Another group answers at once; one of small models is back by then."""

_MAX_MESSAGE = 500
_MAX_PARAM = 100


class ApiError(Exception):
    """An answer other than success. The message is for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = headers or {}

    @property
    def envelope(self) -> ErrorEnvelope:
        """The body of the answer. What a client sent may be in it, so it is bounded."""
        return ErrorEnvelope(
            error=ErrorDetail(
                message=_printable(self.message, _MAX_MESSAGE),
                type=_type(self.status),
                param=None if self.param is None else _printable(self.param, _MAX_PARAM),
                code=self.code,
            )
        )

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """The answer."""
        return JSONResponse(
            self.envelope.model_dump(), self.status, {**self.headers, **(headers or {})}
        )


def _type(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def _printable(text: str, limit: int) -> str:
    """One short line that UTF-8 can hold."""
    line = " ".join(text[: 4 * limit].split()).encode(errors="replace").decode()
    return line if len(line) <= limit else f"{line[:limit]}…"


def to_api_error(error: Exception) -> ApiError:
    """Returns what a client may know of any error. The text of an unexpected one stays here."""
    match error:
        case ApiError():
            return error
        case RequestError():
            return ApiError(400, str(error), param=error.param, code=error.code)
        case RequestFailed():
            return ApiError(400, str(error), param=error.param)
        case RequestValidationError():
            return _from_validation(error)
        case HTTPException():
            return ApiError(error.status_code, error.detail, headers=error.headers)
        case GroupLost():
            return ApiError(
                503,
                f"The servers at work on this were lost. Try again in {_LOST_RETRY_AFTER_S} s. "
                f"Request: {_log(error)}",
                code="unavailable",
                headers={"retry-after": str(_LOST_RETRY_AFTER_S)},
            )
        case _:
            name = _log(error)
            return ApiError(500, f"The server failed to answer; its log says why. Request: {name}")


def _log(error: Exception) -> str:
    """Keeps what clients are not told; returns the request's id, by which it is found."""
    name = request_id.get()
    _LOGGER.error("request %s failed", name, exc_info=error, extra={"request": name})
    return name


def _from_validation(error: RequestValidationError) -> ApiError:
    problem = error.errors()[0]
    if problem["type"] == "json_invalid":
        return ApiError(400, f"The body is not valid JSON: {problem['ctx']['error']}.")
    path = [str(part) for part in problem["loc"][1:]]
    if len(path) > 1 and path[0].endswith("-body"):
        # Where a body may be of several kinds, pydantic names the kind too.
        path = path[1:]
    message = problem["msg"].removeprefix("Value error, ")
    code = _CODES.get(problem["type"])
    if code == "unknown_parameter":
        message = "Unknown parameter: remove it or correct its name"
    if not path:
        return ApiError(400, "The body must be a JSON object, sent as application/json.")
    return ApiError(400, f"{'.'.join(path)}: {message}.", param=path[0], code=code)


def install_handlers(app: FastAPI) -> None:
    """Makes ``app`` answer every error with the envelope."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        known = to_api_error(error)
        if isinstance(error, HTTPException):
            known.message = _describe(request, error)
        return known.response()

    kinds = (
        ApiError,
        RequestError,
        RequestFailed,
        GroupLost,
        RequestValidationError,
        HTTPException,
        Exception,
    )
    for kind in kinds:
        app.add_exception_handler(kind, answer)


def _describe(request: Request, error: HTTPException) -> str:
    where = f"{request.method} {request.url.path}"
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return f"{where} does not exist; GET /docs lists what does."
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return f"{where} is not allowed; see the header Allow."
        case HTTPStatus.BAD_REQUEST if error.__cause__ is not None:
            return f"The body cannot be read: {_unreadable(error.__cause__)}."
        case _:
            return str(error.detail)


def _unreadable(cause: BaseException) -> str:
    """What stopped the JSON parser where it is no error of syntax."""
    match cause:
        case RecursionError():
            return "it is nested too deeply"
        case UnicodeDecodeError():
            return "it is not valid UTF-8"
        case ValueError():
            return "a number has too many digits"
        case _:
            return "send JSON, as application/json"
