"""Equation 1: lookahead <-> SP degree <-> devices (Timor et al., section 3.1 and appendix D)."""

import math

from dsi_ray.core.decoders.dsi import Plan


def smallest_lookahead(target: float, drafter: float, sp_degree: int) -> int:
    """The smallest lookahead with ``ceil(target / (lookahead * drafter)) <= sp_degree``.

    Args:
        target: Latency of one target forward, messages included; any unit.
        drafter: Latency of one drafter forward, same unit.
        sp_degree: Number of target servers.
    """
    return max(1, math.ceil(target / (sp_degree * drafter) - 1e-9))


def plan(target: float, drafter: float, sp_degree: int) -> Plan:
    """The plan for measured latencies (same unit, messages included)."""
    lookahead = smallest_lookahead(target, drafter, sp_degree)
    return Plan(lookahead, run_ahead=lookahead * (sp_degree + 2))
