"""One server for all HTTP tests: the real application on the session's Ray."""

import socket
import warnings
from collections.abc import Callable, Iterator

import httpx
import openai
import pytest

from dsi_ray.config import Algorithm
from dsi_ray.runtime.client.engine import Engine
from dsi_ray.serving.api import build_api
from dsi_ray.serving.config import ServingConfig

Api = Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="session")
def url(ray_cluster: object) -> Iterator[str]:
    """The address of a server of the demo pair."""
    with warnings.catch_warnings():
        # Ray Serve declares its settings in a way that pydantic will drop one day.
        warnings.simplefilter("ignore")
        from dsi_ray.serving.server import running
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with running(ServingConfig(port=port)) as url:
        yield url


@pytest.fixture(scope="session")
def engine(ray_cluster: object) -> Iterator[Engine]:
    """An engine of its own that decodes plainly: what the server must equal."""
    with Engine(ServingConfig(algorithm=Algorithm.NON_SI)) as engine:
        yield engine


@pytest.fixture(scope="session")
def simulated(ray_cluster: object) -> Iterator[Engine]:
    """An engine whose texts take as long as its target's waits: 20 ms a token."""
    config = {"target": "simulated:tpot_ms=20", "drafters": ["simulated:tpot_ms=5"]}
    with Engine(ServingConfig.model_validate(config)) as engine:
        yield engine


@pytest.fixture
def api() -> Api:
    """Makes clients of an application with settings of its own, without a network between."""

    def connect(
        engine: Engine, keys: frozenset[bytes] = frozenset(), **settings: object
    ) -> httpx.AsyncClient:
        config = ServingConfig.model_validate({"served_model_name": "demo", **settings})
        transport = httpx.ASGITransport(build_api(engine, config, keys))
        return httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60)

    return connect


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[openai.OpenAI]:
    """The official client, which would otherwise hide errors by trying again."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def http(url: str) -> Iterator[httpx.Client]:
    """A bare HTTP client."""
    with httpx.Client(base_url=url, timeout=60) as http:
        yield http
