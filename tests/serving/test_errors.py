"""What a client may know of an error."""

import logging

import pytest

from dsi_ray.runtime.errors import EngineError, RequestError
from dsi_ray.serving.errors import ApiError, to_api_error


def test_envelope_has_all_four_keys() -> None:
    assert ApiError(404, "gone").envelope == {
        "error": {"message": "gone", "type": "invalid_request_error", "param": None, "code": None}
    }


def test_request_error_names_the_field() -> None:
    error = to_api_error(RequestError("too long", "prompt", "context_length_exceeded"))
    assert (error.status, error.message) == (400, "too long")
    assert (error.param, error.code) == ("prompt", "context_length_exceeded")


@pytest.mark.parametrize("cause", [EngineError("secret"), KeyError("secret"), OSError("secret")])
def test_internal_error_tells_nothing_but_is_logged(
    cause: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        error = to_api_error(cause)
    assert error.status == 500
    assert "secret" not in str(error.envelope)
    assert "secret" in caplog.text
