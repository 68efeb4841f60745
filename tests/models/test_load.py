"""Which configuration gives which model."""

import threading
from pathlib import Path

import pytest
import torch
from tiny import VOCAB, expected_tokens, tiny_model

from dsi_ray.config import ModelConfig, Simulation
from dsi_ray.core.messages import Role
from dsi_ray.models.base import Extension, ModelError, Sampling, extend_one
from dsi_ray.models.load import load_model
from dsi_ray.models.lookup import LookupModel
from dsi_ray.models.simulated import SimulatedModel, drafter_token, target_token
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
GO = threading.Event()


def test_simulated() -> None:
    simulation = Simulation(tpot_ms=0.01, acceptance_rate=0)
    config = ModelConfig(model="simulated", simulation=simulation)
    for role, token_at in ((Role.TARGET, target_token), (Role.DRAFTER, drafter_token)):
        model = load_model(config, role)
        assert isinstance(model, SimulatedModel)
        assert extend_one(model, Extension("a", (1,), 1, GREEDY)).tokens == [
            token_at(simulation, 1, trace=1)
        ]


def test_lookup_takes_its_ngram_and_can_only_draft() -> None:
    config = ModelConfig(model="lookup", ngram=1)
    model = load_model(config, Role.DRAFTER)
    assert isinstance(model, LookupModel)
    assert extend_one(model, Extension("a", (1, 2, 3, 4, 2, 5, 1, 2), 8, GREEDY)).tokens == [5]
    with pytest.raises(ModelError, match="lookup can only be a drafter"):
        load_model(config, Role.TARGET)


@pytest.fixture
def threads() -> object:
    """Puts the number of torch threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_a_directory(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    config = ModelConfig(model=str(tmp_path), dtype="float64", threads=2, kv_cache_bytes=12288)
    model = load_model(config, Role.TARGET)
    assert torch.get_num_threads() == 2
    assert (model.info.name, model.info.vocab_size) == (str(tmp_path), VOCAB)
    path = (1, 2, 3, 4)
    assert extend_one(model, Extension("a", path, 1, GREEDY)).tokens == expected_tokens(
        "llama", path
    )
    extend_one(model, Extension("b", path, 1, GREEDY))
    assert model.cache_stats.preemptions == 1
