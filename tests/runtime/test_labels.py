"""Labels of nodes in the configuration, on real Ray."""

import pytest

from dsi_ray.config import ConfigError, EngineConfig
from dsi_ray.runtime.client.engine import Engine

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.mark.parametrize(
    ("labels", "error"),
    [({"zone": "a"}, "no room"), ({"zone": "!!a"}, "labels: "), ({"!zone": "a"}, "labels: ")],
)
def test_a_label_that_no_node_has_is_refused(labels: dict[str, str], error: str) -> None:
    settings = {
        "target": {"model": "simulated", "simulation": {"tpot_ms": 1}, "labels": labels},
        "drafters": ["lookup"],
        "placement_timeout_s": 0.5,
    }
    with pytest.raises(ConfigError, match=error):
        Engine(EngineConfig.model_validate(settings))


def test_a_group_runs_where_the_labels_are() -> None:
    labels = {"zone": "!a"}
    settings = {
        "target": {"model": "simulated", "simulation": {"tpot_ms": 1}, "labels": labels},
        "drafters": [{"model": "lookup", "labels": labels}],
    }
    with Engine(EngineConfig.model_validate(settings)) as engine:
        assert engine.generate([1]).tokens
