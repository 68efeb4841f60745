"""What is served, and where."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from dsi_ray.config import EngineConfig


class ServingConfig(EngineConfig):
    """An engine and its HTTP address. One YAML serves ``--config`` and Serve's ``args``.

    Attributes:
        host: Address to listen on; ``0.0.0.0`` makes the server public.
        port: Port to listen on.
        served_model_name: The ``model`` of requests; None derives it from the target.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    served_model_name: Annotated[str, Field(min_length=1)] | None = None

    @property
    def model_name(self) -> str:
        """The name that requests give: a directory's or file's last part, or the hub id."""
        if self.served_model_name is not None:
            return self.served_model_name
        path = Path(self.target.model)
        return path.resolve().name if path.exists() else self.target.model
