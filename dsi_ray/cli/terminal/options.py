"""The options that all commands share, in one place."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import ValidationError

from dsi_ray.config import ConfigError, EngineConfig, ModelConfig, describe, load
from dsi_ray.params import SamplingParams

_PANEL = "Engine"


def _option(*names: str, help: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **settings)


C = TypeVar("C", bound=EngineConfig)

Host = Annotated[
    str | None,
    typer.Option(
        help="Address to listen on; 0.0.0.0 lets other machines in.", show_default="127.0.0.1"
    ),
]
Port = Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8000")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What the command line says of the engine; None leaves it to the file or the default."""

    config: Annotated[
        Path | None,
        _option("--config", help="YAML file with settings; flags override it.", metavar="FILE"),
    ] = None
    target: Annotated[
        str | None,
        _option(
            "--target",
            help="Model whose text is served: a directory, hub id, GGUF file, 'demo' or "
            "'simulated:tpot_ms=30'.",
            show_default="demo",
            metavar="MODEL",
        ),
    ] = None
    drafter: Annotated[
        list[str] | None,
        _option(
            "--drafter",
            help="Model that drafts: as --target, or 'lookup', which repeats n-grams of the text; "
            "may be repeated.",
            metavar="MODEL",
        ),
    ] = None
    sp_degree: Annotated[
        int | None,
        _option(
            "--sp-degree",
            help="Number of target servers, which verify drafts of one request at the same time.",
            min=1,
        ),
    ] = None
    lookahead: Annotated[
        str | None,
        _option(
            "--lookahead",
            help="Drafts that a target server verifies in one task; auto follows the latencies.",
            metavar="N|auto",
        ),
    ] = None
    algorithm: Annotated[
        Literal["dsi", "si", "non-si"] | None,
        _option(
            "--algorithm",
            help="Speculate while verifying (dsi), in turns (si), or not at all (non-si).",
        ),
    ] = None
    verification: Annotated[
        Literal["exact", "rejection"] | None,
        _option(
            "--verification",
            help="Where temperature > 0: exact accepts a draft if it is the target's own token; "
            "rejection accepts more drafts, but one seed no longer gives one text.",
        ),
    ] = None
    generation_config: Annotated[
        Literal["auto", "none"] | None,
        _option(
            "--generation-config",
            help="Take sampling defaults from the target's generation_config.json (auto), or not.",
        ),
    ] = None
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "float64"] | None,
        _option("--dtype", help="Number format of the target and of drafters with weights."),
    ] = None
    device: Annotated[
        Literal["auto", "cpu", "cuda"] | None,
        _option("--device", help="Where the target and drafters with weights run."),
    ] = None
    address: Annotated[
        str | None,
        _option(
            "--address",
            help="Address of a running Ray cluster, or auto.",
            show_default="start Ray here",
        ),
    ] = None

    def load(self, schema: type[C], **more: Any) -> C:
        """Returns the configuration: the file, with the flags and ``more`` over it.

        Raises:
            ConfigError: It cannot be used.
        """
        flags = {
            "target": self.target,
            "drafters": self.drafter,
            "sp_degree": self.sp_degree,
            "lookahead": self.lookahead,
            "algorithm": self.algorithm,
            "verification": self.verification,
            "generation_config": self.generation_config,
            "address": self.address,
            **more,
        }
        given = {key: value for key, value in flags.items() if value is not None}
        return self._place(load(schema, self.config, given))

    def _place(self, config: C) -> C:
        flags = {"dtype": self.dtype, "device": self.device}
        given = {key: value for key, value in flags.items() if value is not None}

        def place(model: ModelConfig) -> ModelConfig:
            has_weights = model.model not in ("lookup", "simulated")
            return model.model_copy(update=given) if has_weights else model

        return config.model_copy(
            update={
                "target": place(config.target),
                "drafters": tuple(place(drafter) for drafter in config.drafters),
            }
        )


def with_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the shared options to a command, which gets them as its argument ``engine``."""
    shared = inspect.signature(EngineOptions).parameters
    own = inspect.signature(command).parameters

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        engine = EngineOptions(**{name: given.pop(name) for name in shared})
        command(engine=engine, **given)

    parameters = [p for p in own.values() if p.name != "engine"] + list(shared.values())
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def sampling_params(**fields: Any) -> SamplingParams:
    """Returns the parameters of a request.

    Raises:
        ConfigError: One is wrong.
    """
    try:
        return SamplingParams(**fields)
    except ValidationError as error:
        raise ConfigError(describe(error)) from error
