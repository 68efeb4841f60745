"""Checks of the models: whether they can be read, and speak the same tokens."""

from collections.abc import Iterator

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoint import check_checkpoint
from dsi_ray.models.vocabulary import check_vocabularies, checkpoint_source
from dsi_ray.runtime.doctor.finding import Finding, State


def check_models(config: EngineConfig) -> Iterator[Finding]:
    """Whether target and drafters can be used, as far as can be told without their weights."""
    yield _check_model("target", config.target, Role.TARGET)
    for drafter in config.drafters:
        found = _check_model("drafter", drafter, Role.DRAFTER)
        yield found if found.state is State.FAILED else _check_pair(found, config.target, drafter)


def _check_model(check: str, config: ModelConfig, role: Role) -> Finding:
    source = checkpoint_source(config, role)
    try:
        if source is not None:
            check_checkpoint(source, config.ranks)
    except ModelError as error:
        return _failed(check, error)
    return Finding(check, State.OK, config.model)


def _check_pair(found: Finding, target: ModelConfig, drafter: ModelConfig) -> Finding:
    try:
        check_vocabularies(target, drafter)
    except ModelError as error:
        return _failed(found.check, error)
    return found


def _failed(check: str, error: ModelError) -> Finding:
    """The messages of models end with what to do."""
    detail, _, action = str(error).rpartition("; ")
    return Finding(check, State.FAILED, detail or str(error), action if detail else "")
