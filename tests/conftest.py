"""One Ray cluster for the whole test session, and hypothesis.

It tries the same examples on every run; ``HYPOTHESIS_PROFILE=search`` looks for new ones.
"""

import os
from collections.abc import Iterator

# Before Ray is imported: local clusters otherwise ask for tokens.
os.environ["RAY_AUTH_MODE"] = "disabled"

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
_SEARCH_EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "2000"))

settings.register_profile(
    "check", derandomize=True, deadline=None, max_examples=60, suppress_health_check=_SLOW
)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=_SEARCH_EXAMPLES,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all that starts Ray; those tests run one after another, beside the others."""
    for item in items:
        if {"ray_cluster", "starts_ray"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.ray)


@pytest.fixture(scope="session")
def starts_ray() -> None:
    """For tests of commands that start a Ray of their own."""


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray with more CPUs than this machine has: most servers ask for none."""
    import ray

    ray.init(
        "local", num_cpus=16, include_dashboard=False, log_to_driver=False, configure_logging=False
    )
    yield
    ray.shutdown()
