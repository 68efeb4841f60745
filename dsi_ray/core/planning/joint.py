"""How to share devices: many small target servers (SP) or fewer, faster ones (MP)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dsi_ray.core.planning.performance_model import PerformanceModel, affordable_sp_degree


@dataclass(frozen=True, slots=True)
class Shape:
    """A way to share devices.

    Attributes:
        sp_degree: Number of target servers.
        model_parallel: Devices of each.
        lookahead: Drafts in a verification task.
        token: Expected latency of a token with DSI, in the unit of the pace.
        non_si: The same of such a target server alone.
    """

    sp_degree: int
    model_parallel: int
    lookahead: int
    token: float
    non_si: float

    @property
    def devices(self) -> int:
        """What it takes, with one for the drafter."""
        return self.sp_degree * self.model_parallel + 1


def amdahl(target: float, smallest: int, devices: int, serial: float) -> dict[int, float]:
    """Assumed latencies of a target forward by the devices of a server.

    Args:
        target: Latency on ``smallest`` devices.
        smallest: That is doubled as long as it leaves one of ``devices`` for the drafter.
        devices: All there are.
        serial: Share of a forward on one device that more devices do not make faster.
    """

    def relative(count: int) -> float:
        return serial + (1 - serial) / count

    counts = [smallest]
    while 2 * counts[-1] < devices:
        counts.append(2 * counts[-1])
    return {count: target * relative(count) / relative(smallest) for count in counts}


def joint_plan(pace: PerformanceModel, devices: int, targets: Mapping[int, float]) -> list[Shape]:
    """Every way to share ``devices`` between one drafter and target servers of equal size.

    Args:
        pace: What is measured besides the target's latency.
        devices: All there are.
        targets: Latency of a target forward by the devices of a server.
    """
    shapes = []
    for model_parallel, target in targets.items():
        own = replace(pace, target=target)
        for sp_degree in range(1, affordable_sp_degree(devices, model_parallel) + 1):
            lookahead = own.plan(sp_degree).lookahead
            shapes.append(Shape(sp_degree, model_parallel, lookahead, own.token(sp_degree), target))
    return shapes
