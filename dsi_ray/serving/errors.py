"""Errors as OpenAI's clients expect them: an envelope of message, type, param and code."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dsi_ray.runtime.errors import RequestError

_LOGGER = logging.getLogger(__name__)
_INVALID = "invalid_request_error"
_CODES = {"unsupported_parameter": "unsupported_parameter", "extra_forbidden": "unknown_parameter"}
"""Codes of the validation errors that have one."""


class ApiError(Exception):
    """An answer other than success. The message is for the client."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    @property
    def envelope(self) -> dict[str, dict[str, str | None]]:
        """The body of the answer."""
        return {
            "error": {
                "message": self.message,
                "type": _INVALID if self.status < 500 else "server_error",
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """The answer."""
        return JSONResponse(self.envelope, self.status, headers)


def to_api_error(error: Exception) -> ApiError:
    """Returns what a client may know of any error. The text of an unexpected one stays here."""
    match error:
        case ApiError():
            return error
        case RequestError():
            return ApiError(400, str(error), param=error.param, code=error.code)
        case RequestValidationError():
            return _from_validation(error)
        case HTTPException():
            return ApiError(error.status_code, error.detail)
        case _:
            _LOGGER.error("a request failed", exc_info=error)
            return ApiError(500, "The server failed to answer; its log says why.")


def _from_validation(error: RequestValidationError) -> ApiError:
    problem = error.errors()[0]
    if problem["type"] == "json_invalid":
        return ApiError(400, f"The body is not valid JSON: {problem['ctx']['error']}.")
    path = [str(part) for part in problem["loc"][1:]]
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
        return known.response(getattr(error, "headers", None))

    for kind in (ApiError, RequestError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def _describe(request: Request, error: HTTPException) -> str:
    where = f"{request.method} {request.url.path}"
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return f"{where} does not exist; GET /docs lists what does."
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return f"{where} is not allowed; see the header Allow."
        case _:
            return str(error.detail)
