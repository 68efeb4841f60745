"""Shared noise makes drafts agree, rejection sampling accepts more; nothing is left to chance."""

from collections.abc import Iterator

import pytest
import torch

from dsi_ray.experiments.bench.coupling import Coupling, compare, demo_coupling, sample_text
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """More only slow tiny models down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def coupling(one_thread: None) -> Coupling:
    """The demo pair at temperature 1."""
    return demo_coupling(temperature=1, prompts=4, new_tokens=48)


def test_shared_noise_clearly_beats_independent_sampling(coupling: Coupling) -> None:
    assert coupling.positions == 4 * 48
    assert coupling.exact > coupling.independent + 0.25


def test_it_is_where_the_theory_says(coupling: Coupling) -> None:
    noise = 3 * (0.25 / coupling.positions) ** 0.5
    assert coupling.bound - noise < coupling.exact < coupling.overlap + noise
    assert coupling.independent < coupling.bound < coupling.overlap
    assert abs(coupling.rejection - coupling.overlap) < noise


def test_a_drafter_that_is_the_target_always_agrees() -> None:
    from dsi_ray.demo import TARGET_DIR
    from dsi_ray.models.checkpoints.checkpoint import load_checkpoint

    target = load_checkpoint(str(TARGET_DIR), "float32", torch.device("cpu"))
    sampling = Sampling(SamplingParams(temperature=1, max_tokens=24), 3, seed=2)
    path = sample_text(target, [5, 6, 7], sampling)
    rates = compare(target, target, path, sampling).mean(1).tolist()
    exact, rejection, independent, bound, overlap = rates
    assert (exact, bound, overlap) == pytest.approx((1, 1, 1))
    assert rejection > 0.85, "only the tail that does not travel is rejected"
    assert independent < 0.9
