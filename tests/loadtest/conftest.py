"""One server of somebody else's for all tests."""

from collections.abc import Iterator

import pytest

from tests.loadtest.fake_server import FakeServer, serving


@pytest.fixture(scope="session")
def fake_server() -> FakeServer:
    """What the server was asked."""
    return FakeServer()


@pytest.fixture(scope="session")
def fake_url(fake_server: FakeServer) -> Iterator[str]:
    """The server's address."""
    with serving(fake_server) as url:
        yield url
