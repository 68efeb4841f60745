"""From a configuration to a model."""

from functools import partial

from dsi_ray.config import ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import LanguageModel, ModelError
from dsi_ray.models.lookup import LookupModel
from dsi_ray.models.simulated import SimulatedModel
from dsi_ray.models.tokenizer import PretrainedTokenizer


def load_model(config: ModelConfig, role: Role, index: int = 0) -> LanguageModel:
    """Returns the model that a server runs.

    Args:
        config: Which one, and on what.
        role: What the server is used for.
        index: The server's among those of its role; simulated servers differ in their jitter.

    Raises:
        ModelError: It cannot be used as asked.
    """
    if config.simulation is not None:
        return SimulatedModel(config.simulation, role, index)
    if config.model == "lookup":
        if role is Role.TARGET:
            raise ModelError("lookup can only be a drafter; choose another target")
        return LookupModel(config.ngram)
    return _load_transformers(config, role)


def _load_transformers(config: ModelConfig, role: Role) -> LanguageModel:
    # torch and transformers take seconds to import; the other models need neither.
    import torch

    from dsi_ray.models.checkpoint import find_device, load_checkpoint
    from dsi_ray.models.transformers_model import TransformersModel
    from dsi_ray.models.vocabulary import checkpoint_source, vocab_size

    source = checkpoint_source(config, role)
    assert source is not None
    device = find_device(config)
    model = load_checkpoint(source, config.dtype, device)
    if device.type == "cpu":
        # Some imports reset the number of threads: this comes after all of them.
        torch.set_num_threads(config.threads)
    ids = vocab_size(source, model.get_input_embeddings().weight.shape[0])
    tokenizer = partial(PretrainedTokenizer, source)
    return TransformersModel(config.model, model, ids, config.kv_cache_bytes, tokenizer)
