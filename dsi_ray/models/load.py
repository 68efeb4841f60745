"""From a configuration to a model."""

from functools import partial
from typing import TYPE_CHECKING, Any

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import LanguageModel, ModelError
from dsi_ray.models.lookup import LookupModel
from dsi_ray.models.simulated import SimulatedModel
from dsi_ray.models.text.tokenizer import PretrainedTokenizer

if TYPE_CHECKING:
    import torch

    from dsi_ray.models.forward.parallel import RankLeader, Rendezvous


def load_model(
    config: ModelConfig, role: Role, index: int = 0, leader: "RankLeader | None" = None
) -> LanguageModel:
    """Returns the model that a server runs.

    Args:
        config: Which one, and on what.
        role: What the server is used for.
        index: The server's among those of its role; simulated servers differ in their jitter.
        leader: Of the processes that hold its other shards, which call `follow` now.

    Raises:
        ModelError: It cannot be used as asked.
    """
    if config.simulation is not None:
        return SimulatedModel(config.simulation, role, index)
    if config.model == "lookup":
        if role is Role.TARGET:
            raise ModelError("lookup can only be a drafter; choose another target")
        return LookupModel(config.ngram)
    return _load_transformers(config, role, leader)


def follow(config: ModelConfig, role: Role, rank: int, meeting: "Rendezvous") -> None:
    """Computes one shard of a model; returns when its leader is gone.

    Raises:
        ModelError: It cannot be used as asked.
    """
    from dsi_ray.models.checkpoints.checkpoint import find_device
    from dsi_ray.models.checkpoints.memory import kv_cache_budget
    from dsi_ray.models.forward.packed_model import PackedModel
    from dsi_ray.models.forward.parallel import RankFollower
    from dsi_ray.models.forward.trial import try_out

    device = find_device(config)
    follower = RankFollower(meeting, rank, device)
    _, model = _load_weights(config, role, device)
    packed = PackedModel(model)
    try_out(config.model, packed)
    kv_cache_budget(config, packed)
    follower.follow(packed.forward)


def _load_transformers(
    config: ModelConfig, role: Role, leader: "RankLeader | None"
) -> LanguageModel:
    # torch and transformers take seconds to import; the other models need neither.
    from dsi_ray.models.checkpoints.checkpoint import find_device
    from dsi_ray.models.checkpoints.generation_config import find_eos_ids, find_sampling_defaults
    from dsi_ray.models.checkpoints.memory import kv_cache_budget
    from dsi_ray.models.checkpoints.vocabulary import read_tokenizer, vocab_size
    from dsi_ray.models.transformers_model import TransformersModel

    device = find_device(config)
    if leader is not None:
        leader.join(device)
    source, model = _load_weights(config, role, device)
    tokenizer = read_tokenizer(source)
    rows = model.get_input_embeddings().weight.shape[0]
    eos_ids = tuple(token for token in find_eos_ids(source, tokenizer) if token < rows)
    return TransformersModel(
        config.model,
        model,
        vocab_size(tokenizer, rows, eos_ids),
        partial(kv_cache_budget, config),
        partial(PretrainedTokenizer, source),
        leader,
        eos_ids=eos_ids,
        # Drafters sample as their target's requests say.
        sampling_defaults=find_sampling_defaults(source) if role is Role.TARGET else (),
    )


def _load_weights(config: ModelConfig, role: Role, device: "torch.device") -> tuple[str, Any]:
    """Where the model comes from, and what of it belongs on this process's device."""
    import torch

    from dsi_ray.models.checkpoints.checkpoint import load_checkpoint
    from dsi_ray.models.checkpoints.vocabulary import checkpoint_source

    source = checkpoint_source(config, role)
    assert source is not None
    stages = config.parallel // config.ranks
    model = load_checkpoint(source, config.dtype, device, config.ranks, stages)
    if device.type == "cpu":
        # Some imports reset the number of threads: this comes after all of them.
        torch.set_num_threads(config.threads)
    return source, model
