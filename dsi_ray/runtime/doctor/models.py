"""Checks of the models: whether they can be read, and speak the same tokens."""

from collections.abc import Iterator

from dsi_ray.config import EngineConfig, ModelConfig
from dsi_ray.core.messages import Role
from dsi_ray.models.base import ModelError
from dsi_ray.models.checkpoints.checkpoint import check_checkpoint
from dsi_ray.models.checkpoints.generation_config import find_eos_ids, find_sampling_defaults
from dsi_ray.models.checkpoints.vocabulary import (
    check_vocabularies,
    checkpoint_source,
    read_tokenizer,
)
from dsi_ray.runtime.doctor.finding import Finding, FindingState, finding


def check_models(config: EngineConfig) -> Iterator[Finding]:
    """Whether target and drafters can be used, as far as can be told without their weights."""
    target = _check_model("target", config.target, Role.TARGET)
    yield target
    source = checkpoint_source(config.target, Role.TARGET)
    if source is not None and target.state is FindingState.OK:
        yield check_ends(source)
        yield from check_defaults(source, config.generation_config)
    for drafter in config.drafters:
        found = _check_model("drafter", drafter, Role.DRAFTER)
        yield (
            found
            if found.state is FindingState.FAILED
            else _check_pair(found, config.target, drafter)
        )


def check_ends(source: str) -> Finding:
    """Which tokens end a text, and which of the checkpoint's files say so."""
    try:
        tokenizer = read_tokenizer(source)
        ends = find_eos_ids(source, tokenizer)
    except ModelError as error:
        return _failed("end of text", error)
    told = []
    for token, files in ends.items():
        piece = None if tokenizer is None else tokenizer.convert_ids_to_tokens(token)
        told.append(f"{token}{f' {piece}' if piece else ''} ({', '.join(files)})")
    return finding(
        "end of text",
        bool(ends),
        "; ".join(told) or "none",
        "texts end only with max_tokens or a stop: name eos_token_id in config.json",
        FindingState.WARNING,
    )


def check_defaults(source: str, generation_config: str) -> Iterator[Finding]:
    """What the checkpoint recommends for requests that do not say how to sample."""
    try:
        named = [f"{name} {value}" for name, value in find_sampling_defaults(source)]
    except ModelError as error:
        yield _failed("sampling", error)
        return
    if named:
        used = "is" if generation_config == "auto" else "is not"
        detail = f"what a request leaves out {used} {', '.join(named)} (generation_config.json)"
        yield Finding("sampling", FindingState.OK, detail)


def _check_model(check: str, config: ModelConfig, role: Role) -> Finding:
    source = checkpoint_source(config, role)
    try:
        if source is not None:
            check_checkpoint(source, config.ranks)
    except ModelError as error:
        return _failed(check, error)
    return Finding(check, FindingState.OK, config.model)


def _check_pair(found: Finding, target: ModelConfig, drafter: ModelConfig) -> Finding:
    try:
        check_vocabularies(target, drafter)
    except ModelError as error:
        return _failed(found.check, error)
    return found


def _failed(check: str, error: ModelError) -> Finding:
    """The messages of models end with what to do."""
    detail, _, action = str(error).rpartition("; ")
    return Finding(check, FindingState.FAILED, detail or str(error), action if detail else "")
