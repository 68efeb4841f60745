"""API keys: where they come from, and who gets in."""

import asyncio
import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.config import ConfigError
from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.middleware.auth import KEYS_VARIABLE, Auth, read_keys

from .asgi import Answer, Echo, call, scope

KEYS = {"first-key", "second-key"}
OPEN = ServingConfig().open_paths


def digests(*keys: str) -> frozenset[bytes]:
    return frozenset(hashlib.sha256(key.encode()).digest() for key in keys)


@pytest.fixture(autouse=True)
def _no_keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)


def ask(path: str = "/v1/models", header: str | None = None) -> Answer:
    headers = {} if header is None else {"authorization": header}
    return asyncio.run(call(Auth(Echo(), digests(*KEYS), OPEN), scope(path, headers)))


@pytest.mark.parametrize("key", sorted(KEYS))
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_every_key_opens(key: str, scheme: str) -> None:
    assert ask(header=f"{scheme} {key}").status == 200


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic first-key", "first-key", "Bearer first-ke"]
)
def test_anything_else_is_401_in_the_envelope(header: str | None) -> None:
    answer = ask(header=header)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    error = json.loads(answer.body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")


@given(st.text(st.characters(max_codepoint=255, exclude_characters="\0\r\n"), max_size=40))
def test_no_other_key_opens(key: str) -> None:
    assert ask(header=f"Bearer {key}").status == (200 if key.strip(" \t") in KEYS else 401)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
def test_a_key_in_any_letters_opens_as_utf_8(key: str) -> None:
    # What a header holds is bytes; ASGI's tools show them as latin-1.
    headers = {"authorization": f"Bearer {key.encode().decode('latin-1')}"}
    answer = asyncio.run(call(Auth(Echo(), digests(key), OPEN), scope(headers=headers)))
    assert answer.status == 200


def test_keys_are_read_as_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_bytes("schlüssel\n".encode())
    monkeypatch.setenv(KEYS_VARIABLE, "ключ")
    assert read_keys(file) == digests("schlüssel", "ключ")
    file.write_bytes(b"schl\xfcssel\n")
    with pytest.raises(ConfigError, match="cannot read"):
        read_keys(file)
    monkeypatch.setenv(KEYS_VARIABLE, os.fsdecode(b"schl\xfcssel"))
    with pytest.raises(ConfigError, match="UTF-8"):
        read_keys(None)


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/", True),
        ("/health", True),
        ("/metrics", True),
        ("/docs/oauth2-redirect", True),
        ("/healthy", False),
        ("/v1/completions", False),
        ("/tokenize", False),
        ("/unknown", False),
    ],
)
def test_open_paths(path: str, is_open: bool) -> None:
    assert ask(path).status == (200 if is_open else 401)


def test_keys_of_file_and_environment_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n  two  \n")
    monkeypatch.setenv(KEYS_VARIABLE, "three, four,")
    assert read_keys(file) == digests("one", "two", "three", "four")


def test_no_keys_at_all() -> None:
    assert read_keys(None) == frozenset()


def test_a_place_without_keys_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("\n")
    with pytest.raises(ConfigError, match="keys holds no API key"):
        read_keys(file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_keys(tmp_path / "missing")
    monkeypatch.setenv(KEYS_VARIABLE, " , ")
    with pytest.raises(ConfigError, match=KEYS_VARIABLE):
        read_keys(None)
