"""How requests arrive: the part of a scenario that says when."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator


class Model(BaseModel):
    """A part of a scenario: nothing unknown, nothing that changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Load(Model):
    """What all kinds have in common: whichever of the two comes first is the end.

    Attributes:
        requests: How many to send.
        duration_s: For how long to send new ones.
    """

    requests: PositiveInt | None = None
    duration_s: PositiveFloat | None = None

    @model_validator(mode="after")
    def _ends(self) -> "_Load":
        if self.requests is None and self.duration_s is None:
            raise ValueError("give requests, duration_s or both: it would never end")
        return self


class Closed(_Load):
    """A fixed number of clients, each of which waits for its answer before it asks again.

    Attributes:
        concurrency: The number of clients.
        ramp_s: Over how long they join, evenly spaced.
    """

    kind: Literal["closed"]
    concurrency: PositiveInt
    ramp_s: float = Field(0.0, ge=0)


class _Open(_Load):
    """Requests arrive whether or not the earlier ones are answered.

    Attributes:
        rate: Requests a second.
        max_in_flight: Beyond it the load generator holds requests back; they age meanwhile.
    """

    rate: PositiveFloat
    max_in_flight: PositiveInt = 1000


class Constant(_Open):
    """Evenly spaced arrivals."""

    kind: Literal["constant"]


class Poisson(_Open):
    """Independent arrivals."""

    kind: Literal["poisson"]


class Gamma(_Open):
    """Gamma-distributed gaps between arrivals.

    Attributes:
        burstiness: The shape: 1 is Poisson, less comes in bursts, more is more regular. The gaps'
            coefficient of variation is ``1 / sqrt(burstiness)``.
    """

    kind: Literal["gamma"]
    burstiness: PositiveFloat


class Ramp(_Open):
    """Poisson arrivals whose rate changes linearly from ``rate`` to ``to_rate``."""

    kind: Literal["ramp"]
    to_rate: PositiveFloat
    duration_s: PositiveFloat


OpenLoad = Constant | Poisson | Gamma | Ramp
Load = Annotated[Closed | OpenLoad, Field(discriminator="kind")]
