"""What an engine is made of: models, servers and how they decode. One schema for flags and YAML."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)


class ConfigError(ValueError):
    """A configuration cannot be used. The message is one line: what, where, what to do."""


class Algorithm(StrEnum):
    """How a request is decoded."""

    DSI = "dsi"
    SI = "si"
    NON_SI = "non-si"


class Verification(StrEnum):
    """When a draft counts, where tokens are sampled; greedy decoding knows only ``exact``."""

    EXACT = "exact"
    """If it is the target's own token: one seed gives one text, whoever decodes it."""

    REJECTION = "rejection"
    """As often as rejection sampling allows. The text has the target's distribution, but is not
    the one that the target alone gives for the seed."""


class Transport(StrEnum):
    """How messages between processes travel."""

    AUTO = "auto"
    """On lanes, or by actor calls to processes to which no lane can be opened."""

    LANES = "lanes"
    """On connections of their own."""

    CALLS = "calls"
    """By actor calls and streams, over Ray's ports alone."""


def _port_range(ports: str) -> str:
    first, _, last = ports.partition("-")
    if not 1024 <= int(first) <= int(last or first) <= 65535:
        raise ValueError("give ports from 1024 to 65535, the lower one first: 20000-20099")
    return ports


LanePorts = Annotated[str, Field(pattern=r"^\d{4,5}(-\d{4,5})?$"), AfterValidator(_port_range)]


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Simulation(_Schema):
    """A model whose forward is a timed wait: the paper's online experiment.

    Attributes:
        ttft_ms: Milliseconds of the first forward of a request on a server, one token included:
            its prompt, of whatever length, takes ``ttft_ms - tpot_ms``. None counts the tokens of
            the prompt like any others.
        tpot_ms: Milliseconds of every later forward.
        per_token_ms: Added for each token that a forward computes beyond ``knee_tokens``.
        knee_tokens: Tokens that a forward computes, of all requests together, for the price of
            one: an accelerator waits for its memory until then.
        acceptance_rate: For a drafter: probability that its token equals the target's, each
            position on its own.
        jitter: Relative standard deviation of the waits.
        seed: Of the tokens and of the jitter.
        vocab_size: Number of token ids.
    """

    ttft_ms: Annotated[float, Field(ge=0)] | None = None
    tpot_ms: Annotated[float, Field(gt=0)]
    per_token_ms: Annotated[float, Field(ge=0)] = 0.0
    knee_tokens: Annotated[int, Field(ge=1)] = 1
    acceptance_rate: Annotated[float, Field(ge=0, le=1)] = 1.0
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.0
    seed: int = 0
    vocab_size: Annotated[int, Field(ge=2)] = 32_000


class ModelConfig(_Schema):
    """A model and the resources of each server that runs it.

    Attributes:
        model: A local directory, a hub id, a GGUF file, ``demo`` (the built-in pair),
            ``lookup`` (drafter only) or ``simulated``. Where a string is given for the whole
            model, ``simulated:tpot_ms=30,acceptance_rate=0.8`` sets the simulation too.
        dtype: Of the computation; ``auto`` is float32 on a CPU and the checkpoint's on a GPU.
        device: ``auto`` takes a GPU where ``num_gpus`` asks for one, or where it says nothing and
            the cluster has one left.
        num_gpus: GPUs that Ray reserves for each server, or which part of one; None means
            ``parallel`` of them for ``device: cuda``.
        num_cpus: CPUs that Ray reserves for each server.
        parallel: Devices of each server, all on one node.
        parallel_style: ``tensor`` splits each layer: all devices work on each token, a process
            each. ``pipeline`` gives each device some of the layers: for models that do not fit on
            one, where transformers cannot split a layer.
        threads: Torch threads of each process of a server on a CPU.
        accelerator_type: Ray's name of the GPU type to run on, such as ``H100``.
        labels: What labels the node must have, in the syntax of Ray's label selectors. Those of the
            first drafter are the coordinator's too: the two talk most.
        kv_cache_bytes: Budget of each device's KV cache; beyond it the texts of finished requests
            are dropped, then those of requests that do not run now. On a GPU it is taken at the
            start, and ``auto`` is most of what weights and forwards leave free; on a CPU it is
            taken as it is needed, and ``auto`` is 1 GiB.
        prefill_chunk: Most tokens of prompts in one forward. A longer prompt takes several, between
            which other requests of the server go on.
        own_process: False puts a drafter on a CPU into the coordinator's process: fewer messages,
            but if it crashes so does the coordinator. ``lookup`` always runs there.
        ngram: For ``lookup``: longest n-gram that is looked up.
        simulation: For ``simulated``.
    """

    model: str
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    num_gpus: Annotated[float, Field(ge=0)] | None = None
    num_cpus: Annotated[float, Field(ge=0)] = 0.0
    parallel: Annotated[int, Field(ge=1)] = 1
    parallel_style: Literal["tensor", "pipeline"] = "tensor"
    threads: Annotated[int, Field(ge=1)] = 1
    accelerator_type: str | None = None
    labels: dict[str, str] = {}
    kv_cache_bytes: Annotated[int, Field(gt=0)] | Literal["auto"] = "auto"
    prefill_chunk: Annotated[int, Field(ge=1)] = 256
    own_process: bool = True
    ngram: Annotated[int, Field(ge=1)] = 3
    simulation: Simulation | None = None

    @model_validator(mode="after")
    def _simulation_matches(self) -> Self:
        if (self.model == "simulated") != (self.simulation is not None):
            raise ValueError(
                "model 'simulated' needs a simulation, such as simulated:tpot_ms=30, "
                "and no other model takes one"
            )
        return self

    @model_validator(mode="after")
    def _devices_need_a_process(self) -> Self:
        if not self.own_process and (self.num_gpus or self.device == "cuda"):
            raise ValueError("own_process: false is for drafters on a CPU: leave it out")
        return self

    @model_validator(mode="after")
    def _ray_can_reserve_it(self) -> Self:
        if (self.num_gpus or 0) > 1 and self.num_gpus != int(self.num_gpus or 0):
            raise ValueError("num_gpus must be a whole number, or a part of one GPU")
        return self

    @model_validator(mode="after")
    def _devices_can_share(self) -> Self:
        if self.parallel == 1:
            return self
        if self.model in ("lookup", "simulated") or not self.own_process:
            raise ValueError(f"parallel: {self.parallel} is for models with processes of their own")
        if self.num_gpus not in (None, self.parallel if self.uses_gpu else 0):
            raise ValueError(f"parallel: {self.parallel} takes as many GPUs: leave num_gpus out")
        if self.parallel_style == "pipeline" and not self.uses_gpu:
            raise ValueError("parallel_style: pipeline is for GPUs: add device: cuda")
        return self

    @property
    def uses_gpu(self) -> bool:
        """Whether it runs on GPUs; Ray need not reserve them."""
        return self.device == "cuda" or (self.device == "auto" and bool(self.num_gpus))

    @property
    def leaves_device_open(self) -> bool:
        """Whether it is for whoever knows of GPUs to say where it runs."""
        has_weights = self.model not in ("lookup", "simulated")
        return has_weights and self.device == "auto" and self.num_gpus is None and self.own_process

    @property
    def gpus(self) -> float:
        """How many Ray reserves for each server."""
        if self.num_gpus is not None:
            return self.num_gpus
        return self.parallel if self.device == "cuda" else 0

    @property
    def ranks(self) -> int:
        """Number of processes of each server."""
        return self.parallel if self.parallel_style == "tensor" else 1

    @classmethod
    def parse(cls, value: Any) -> Any:
        """Turns the short form, a string, into fields."""
        if not isinstance(value, str):
            return value
        name, _, settings = value.partition(":")
        if name != "simulated":
            return {"model": value}
        pairs = (item.partition("=") for item in settings.split(",") if item)
        return {"model": name, "simulation": {key.strip(): text for key, _, text in pairs}}


Model = Annotated[ModelConfig, BeforeValidator(ModelConfig.parse)]
Lookahead = Annotated[int, Field(ge=1)] | Literal["auto"]


class EngineConfig(_Schema):
    """DSI groups, each of drafters and target servers, and how they decode by default.

    Attributes:
        target: The model whose text is served.
        drafters: The models that guess; of two on the same path the first survives. By default
            the demo target has the demo drafter, and every other target ``lookup``.
        sp_degree: Number of target servers of a group.
        num_groups: Number of groups, all alike; each request is one group's.
        algorithm: ``dsi``, ``si`` or ``non-si``.
        lookahead: Drafts in a verification task; ``auto`` follows Equation 1.
        verification: ``exact`` or ``rejection``.
        generation_config: ``auto`` takes the sampling parameters that a request leaves out from
            the target's generation_config.json, where it has them; ``none`` ignores the file's.
        max_model_len: Longest prompt and output together; None means the target's own limit.
        placement_strategy: Ray's strategy for the servers' bundles.
        placement_timeout_s: Seconds to wait for the devices, such as nodes that are just starting.
        transport: How processes talk: ``lanes`` (connections of their own), ``calls`` (Ray's actor
            calls, where only Ray's ports are open), or ``auto``: calls where no lane can be opened.
        lane_ports: Where lanes between nodes are listened for, such as ``20000-20099``; None takes
            any free port. Lanes on one node need none.
        address: Of a running Ray cluster; None starts Ray on this machine.
    """

    target: Model = ModelConfig(model="demo")
    drafters: tuple[Model, ...] = ()
    sp_degree: Annotated[int, Field(ge=1, le=64)] = 1
    num_groups: Annotated[int, Field(ge=1)] = 1
    algorithm: Algorithm = Algorithm.DSI
    lookahead: Lookahead = "auto"
    verification: Verification = Verification.EXACT
    generation_config: Literal["auto", "none"] = "auto"
    max_model_len: Annotated[int, Field(ge=2)] | None = None
    placement_strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    placement_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    transport: Transport = Transport.AUTO
    lane_ports: LanePorts | None = None
    address: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _choose_drafter(cls, settings: Any) -> Any:
        if not isinstance(settings, dict) or "drafters" in settings:
            return settings
        target = settings.get("target", "demo")
        name = target.get("model") if isinstance(target, dict) else target
        is_demo = name == "demo" or (isinstance(name, ModelConfig) and name.model == "demo")
        # The demo drafter is so small that messages would take as long as its forwards.
        demo_drafter = ModelConfig(model="demo", own_process=False)
        return {**settings, "drafters": (demo_drafter if is_demo else "lookup",)}

    @model_validator(mode="after")
    def _target_can_verify(self) -> Self:
        if self.target.model == "lookup":
            raise ValueError("lookup can only be a drafter: choose another target")
        if not self.target.own_process:
            raise ValueError(
                "target.own_process: a target needs a process of its own: leave it out"
            )
        if self.algorithm is not Algorithm.NON_SI and not self.drafters:
            raise ValueError(f"algorithm {self.algorithm} needs a drafter: add one or use non-si")
        return self

    @property
    def lane_port_numbers(self) -> tuple[int, ...]:
        """Where to listen for lanes from other nodes, the first free one; 0 is any."""
        if self.lane_ports is None:
            return (0,)
        first, _, last = self.lane_ports.partition("-")
        return tuple(range(int(first), int(last or first) + 1))


IMPORT_PATH = "dsi_ray.serving.app:build_app"
"""How a file for ``serve deploy`` names the application."""

C = TypeVar("C", bound=EngineConfig)


def load(schema: type[C], file: Path | None, overrides: dict[str, Any]) -> C:
    """Reads ``file`` (YAML), puts ``overrides`` over it and validates both together.

    A file for ``serve deploy`` will do: the arguments of the application and its address.

    Raises:
        ConfigError: The file cannot be read, or a key or value is wrong.
    """
    settings: Any = {}
    if file is not None:
        try:
            settings = yaml.safe_load(file.read_text()) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigError(f"cannot read {file}: {' '.join(str(error).split())}") from error
        if not isinstance(settings, dict):
            raise ConfigError(f"{file} must hold keys and values, such as 'sp_degree: 2'")
        if "applications" in settings:
            settings = _of_serve_config(settings, schema, file)
    try:
        return schema.model_validate({**settings, **overrides})
    except ValidationError as error:
        where = f"{file}: " if file is not None else ""
        raise ConfigError(where + describe(error)) from error


def _of_serve_config(serve: dict[str, Any], schema: type[C], file: Path) -> dict[str, Any]:
    """What ``schema`` has a use for."""
    try:
        (args,) = (
            application.get("args") or {}
            for application in serve["applications"]
            if application["import_path"] == IMPORT_PATH
        )
        settings = {**(serve.get("http_options") or {}), **args}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{file} must hold one application of {IMPORT_PATH}, as the files of deployments/ do"
        ) from error
    return {key: value for key, value in settings.items() if key in schema.model_fields}


def describe(error: ValidationError) -> str:
    """The first problem of a validation error in one line, with the name of the field."""
    problem = error.errors(include_url=False)[0]
    # Of a union pydantic names the member too, such as "constrained-int"; a field never has those.
    field = ".".join(str(part) for part in problem["loc"] if "-" not in str(part))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown key: remove it or correct its name"
    return f"{field}: {message}" if field else message
