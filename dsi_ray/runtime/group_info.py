"""What callers of a started group need to know of it."""

from dataclasses import dataclass

from dsi_ray.config import Transport
from dsi_ray.models.base import ModelInfo


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Facts about a started group.

    Attributes:
        target: The target model.
        drafters: The drafters' models, by rank.
        max_context: Most tokens, prompt and output, that each target server takes, of which its KV
            cache has to hold all. A drafter may take fewer.
        transport: How its coordinator is talked to.
        lane_ports: On the coordinator's node, for lanes from others.
    """

    target: ModelInfo
    drafters: tuple[ModelInfo, ...]
    max_context: int
    transport: Transport
    lane_ports: tuple[int, ...]
