"""What a client may know of an error."""

import logging

import pytest

from dsi_ray.runtime.errors import EngineError, RequestError
from dsi_ray.serving.errors import ApiError, to_api_error
from dsi_ray.serving.middleware.request_id import request_id


def test_envelope_has_all_four_keys() -> None:
    assert ApiError(404, "gone").envelope.model_dump() == {
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
    assert request_id.get() in error.message
    assert "secret" in caplog.text


@pytest.mark.parametrize("text", ["x" * 10**6, "two\nlines", "half a \ud800 pair", "\0"])
def test_what_a_client_sent_comes_back_short_and_readable(text: str) -> None:
    error = ApiError(400, text, param=text)
    detail = error.envelope.error
    assert detail.param is not None
    assert len(detail.message) <= 501 and len(detail.param) <= 101
    assert "\n" not in detail.message
    assert error.response().body
