"""One Ray cluster for the whole test session."""

import os
from collections.abc import Iterator

# Before Ray is imported: local clusters otherwise ask for tokens.
os.environ["RAY_AUTH_MODE"] = "disabled"

import pytest


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray with more CPUs than this machine has: most servers ask for none."""
    import ray

    ray.init(
        "local", num_cpus=16, include_dashboard=False, log_to_driver=False, configure_logging=False
    )
    yield
    ray.shutdown()
