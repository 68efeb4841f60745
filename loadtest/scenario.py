"""What to do to a server: the schema of a scenario's YAML file."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from loadtest.errors import LoadTestError
from loadtest.load import Load, Model
from loadtest.prompts import Prompts

_SHIPPED = Path(__file__).parent / "scenarios"


class Between(Model):
    """A uniformly drawn integer, both ends included."""

    min: PositiveInt
    max: PositiveInt

    @model_validator(mode="after")
    def _ordered(self) -> "Between":
        if self.min > self.max:
            raise ValueError("min must not be larger than max")
        return self


class Slo(Model):
    """Service level objectives in milliseconds. A request is good when it meets all given."""

    ttft_ms: PositiveFloat | None = None
    tpot_ms: PositiveFloat | None = None
    e2e_ms: PositiveFloat | None = None


class Sweep(Model):
    """The scenario once for each value.

    Attributes:
        parameter: A path in the scenario, such as ``load.rate``.
        values: What to put there, one after another.
    """

    parameter: str
    values: tuple[Any, ...] = Field(min_length=1)


class Scenario(Model):
    """A load test.

    Attributes:
        description: For people.
        endpoint: Of the two, which to call.
        load: When requests are sent.
        prompts: What they ask.
        max_tokens: Most tokens of an answer, or exactly so many with ``ignore_eos``.
        ignore_eos: Whether to ask for answers of full length; not every server can.
        temperature: Above 0 each request gets a seed of its own.
        extra_body: Further fields of each request, such as ``dsi: {algorithm: si}``.
        warm_up: Requests sent one after another before the measurement, of which they are no part.
        timeout_s: Longest wait for a whole answer, from when it was asked for.
        slo: What makes a request good.
        sweep: A parameter to vary.
        seed: Of arrivals, prompts and lengths.
    """

    description: str = ""
    endpoint: Literal["completions", "chat"] = "completions"
    load: Load
    prompts: Prompts = Field(discriminator="kind")
    max_tokens: PositiveInt | Between = 64
    ignore_eos: bool = False
    temperature: float = Field(0.0, ge=0)
    extra_body: dict[str, Any] = Field(default_factory=dict)
    warm_up: int = Field(2, ge=0)
    timeout_s: PositiveFloat = 300.0
    slo: Slo = Slo()
    sweep: Sweep | None = None
    seed: int = Field(0, ge=0)

    def points(self) -> dict[str, "Scenario"]:
        """Returns the scenarios of the sweep by name, or this one alone.

        Raises:
            LoadTestError: The sweep does not fit the scenario.
        """
        if self.sweep is None:
            return {self.load.kind: self}
        data = self.model_dump(exclude={"sweep"}, exclude_unset=True)
        path = self.sweep.parameter
        name = path.rpartition(".")[2]
        return {
            f"{name} {value}": parse(override(data, {path: value})) for value in self.sweep.values
        }


def override(data: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy with each of ``values`` at its dotted path; missing parts are made."""
    result: dict[str, Any] = deepcopy(dict(data))
    for path, value in values.items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise LoadTestError(f"{path}: {parent} has no parts")
        place[last] = value
    return result


def parse(data: Mapping[str, Any]) -> Scenario:
    """Checks a scenario.

    Raises:
        LoadTestError: It is not one.
    """
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise LoadTestError(f"scenario: {where}: {problem['msg']}") from error


def read(name: str) -> dict[str, Any]:
    """Reads a shipped scenario by its name, or a file by its path.

    Raises:
        LoadTestError: There is none, or it is no YAML mapping.
    """
    file = _SHIPPED / f"{name}.yaml" if name in shipped() else Path(name)
    try:
        data = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        names = ", ".join(shipped())
        raise LoadTestError(f"cannot read {file} ({error}); shipped are {names}") from error
    if not isinstance(data, dict):
        raise LoadTestError(f"{file} is not a mapping of a scenario's settings")
    return data


def shipped() -> list[str]:
    """The names of the scenarios that come with the package."""
    return sorted(file.stem for file in _SHIPPED.glob("*.yaml"))
