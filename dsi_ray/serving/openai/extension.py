"""``dsi``: what this server adds to the OpenAI API's requests."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from dsi_ray.config import Algorithm, EngineConfig, Verification
from dsi_ray.runtime.errors import RequestError
from dsi_ray.runtime.request import Decoding


class DsiOptions(BaseModel):
    """How to decode a request: the time that it takes depends on it, not how good the text is."""

    model_config = ConfigDict(extra="forbid", strict=True)

    algorithm: Annotated[
        Literal["dsi", "si", "non-si"] | None,
        Field(description="Distributed speculation, speculation in turns, or the target alone."),
    ] = None
    lookahead: Annotated[
        Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None,
        Field(description="Drafts in a verification; 'auto' follows Equation 1."),
    ] = None
    verification: Annotated[
        Literal["exact", "rejection"] | None,
        Field(description="One text for one seed, or more drafts accepted (temperature > 0)."),
    ] = None

    def decoding(self, config: EngineConfig) -> Decoding:
        """Returns how to decode; what is left out is as the server's configuration says.

        Raises:
            RequestError: The server has no drafter to do so.
        """
        default = Decoding.default(config)
        algorithm = default.algorithm if self.algorithm is None else Algorithm(self.algorithm)
        if algorithm is not Algorithm.NON_SI and not config.drafters:
            raise RequestError(
                f"algorithm {algorithm} needs a drafter: this server has none", "dsi"
            )
        return Decoding(
            algorithm,
            self.lookahead or default.lookahead,
            default.sp_degree,
            Verification(self.verification or default.verification),
        )
