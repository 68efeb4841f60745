"""What a group does now, in numbers."""

import os
from typing import Any

from dsi_ray.core.group.group import Group
from dsi_ray.core.messages import Role


def group_status(group: Group, sp_degree: int) -> dict[str, Any]:
    """Requests in flight, target servers, and the latencies in force, in milliseconds.

    Args:
        group: The group.
        sp_degree: How many target servers it should have.
    """
    pace = group.pace
    lookahead = pace.lookahead(max(1, group.pool.size))
    return {
        "healthy": group.pool.size > 0,
        "pid": os.getpid(),
        "requests": sum(not member.decoder.over for member in group.members),
        "tasks": group.tasks,
        "targets": {
            "configured": sp_degree,
            "alive": group.pool.size,
            "busy": sum(server.role is Role.TARGET for server in group.busy),
            "required": pace.needed_sp_degree(lookahead),
        },
        "moves": group.moves,
        "moved_tokens": group.moved_tokens,
        "target_ms": pace.target * 1e3,
        "drafter_ms": pace.drafter * 1e3,
        "message_ms": pace.message * 1e3,
        "acceptance_rate": pace.acceptance,
        "lookahead": lookahead,
    }
