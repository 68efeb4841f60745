"""What follows from measurements; the measuring itself is in tests/cli."""

import pytest
import yaml

from dsi_ray.config import EngineConfig
from dsi_ray.demo import DRAFTER_DIR
from dsi_ray.experiments.bench.profile import Acceptance, Profile, Timing, drafter_alone


def profile(target_ms: float, drafter_ms: float, rate: float) -> Profile:
    def timing(tpot: float) -> Timing:
        return Timing(tpot, tpot, tpot, 0.0, {})

    return Profile(timing(target_ms), timing(drafter_ms), Acceptance(rate, (rate,)))


def test_acceptance_is_the_papers_geometric_fit() -> None:
    assert Acceptance.of([3, 1, 0, 4]).geometric == pytest.approx(1 - 1 / (1 + 2))


def test_acceptance_by_place_counts_only_turns_that_came_so_far() -> None:
    assert Acceptance.of([0, 1, 2, 2]).by_position == (3 / 4, 2 / 3, 0.0)


def test_the_plan_is_a_configuration() -> None:
    measured = EngineConfig.model_validate(
        {"target": "/models/big", "drafters": ["/models/small"], "sp_degree": 2}
    )
    text = profile(30, 10, 0.8).config(measured, servers=7)
    planned = EngineConfig.model_validate(yaml.safe_load(text))
    assert planned.target == measured.target
    assert planned.drafters == measured.drafters
    # More than target over drafter cannot help.
    assert planned.sp_degree == 3
    assert "80%" in text.splitlines()[0]


def test_the_drafter_of_the_demo_pair_is_measured_as_itself() -> None:
    alone = drafter_alone(EngineConfig())
    assert (alone.target.model, alone.drafters) == (str(DRAFTER_DIR), ())
    assert alone.target.own_process
