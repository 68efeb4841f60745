"""The decoders: events in, commands out."""

from dsi_ray.core.decoders.base import Counts, Decoder, Request
from dsi_ray.core.decoders.dsi import DSI, Plan
from dsi_ray.core.decoders.non_si import NonSI
from dsi_ray.core.decoders.si import SI

__all__ = ["DSI", "SI", "Counts", "Decoder", "NonSI", "Plan", "Request"]
