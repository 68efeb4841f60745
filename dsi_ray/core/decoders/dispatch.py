"""Where a verification task goes: dispatch and anchor (the rules of section "Dispatch")."""

import math
from dataclasses import dataclass

from dsi_ray.core.decoders.board import LiveTask, TaskBoard
from dsi_ray.core.messages import Mode, ServerId
from dsi_ray.core.tree import TreeNode


@dataclass(frozen=True, slots=True)
class Place:
    """A server, how the task gets there, and the nodes of a queued task that it takes over."""

    server: ServerId
    mode: Mode
    prefix: tuple[TreeNode, ...] = ()


def idle_servers(board: TaskBoard) -> list[ServerId]:
    """Servers without work; one that only prefills the prompt is such: it needs that anyway."""
    return [server for server in board.servers if not _work(board, server)]


def stale_servers(board: TaskBoard) -> list[ServerId]:
    """Servers all of whose work has become useless."""
    return [
        server
        for server in board.servers
        if (work := _work(board, server)) and not any(live.useful for live in work)
    ]


def _work(board: TaskBoard, server: ServerId) -> list[LiveTask]:
    return [live for live in board.active(server) if not live.task.is_prefill]


def place_block(
    board: TaskBoard, path: list[TreeNode], first: TreeNode, *, far: bool = False
) -> Place | None:
    """Where a block goes that starts at ``first`` on ``path``; None if it has to wait.

    ``far`` is the plan's.
    """
    # To take the place of useless work ends that too, and spares a cancellation.
    for server in stale_servers(board) + idle_servers(board) + _redundant(board, far):
        return Place(server, Mode.REPLACE)
    on_path = set(path)
    behind = [
        active[0]
        for active in map(board.active, board.servers)
        if len(active) == 1
        and board.queued(active[0].task.server) is None
        and _leads_to(active[0], on_path, first)
    ]
    if behind:
        return Place(min(behind, key=lambda live: live.started).task.server, Mode.QUEUE)
    for server in board.servers:
        queued = board.queued(server)
        if queued is not None and first.parent and queued.promised[-1] is first.parent:
            return Place(server, Mode.QUEUE, tuple(queued.promised))
    return None


def place_anchor(board: TaskBoard) -> Place:
    """Where the task goes that covers the root; it waits for nothing."""
    for server in idle_servers(board) + stale_servers(board):
        return Place(server, Mode.REPLACE)
    deepest = max(board.servers, key=lambda server: _first_position(board.active(server)))
    return Place(deepest, Mode.REPLACE)


def least_needed(board: TaskBoard, servers: list[ServerId]) -> ServerId:
    """Which of ``servers`` the request can do without most easily."""

    def first_news(server: ServerId) -> float:
        if server not in board.servers:
            return math.inf  # It is still being filled.
        first = _first_position(board.active(server))
        return math.inf if first < 0 else first

    return max(servers, key=first_news)


def _redundant(board: TaskBoard, surely: bool) -> list[ServerId]:
    """Servers doing a decode step that another running task, begun no later, delivers too."""
    running = [active[0] for active in map(board.active, board.servers) if active]
    return [
        live.task.server
        for live in running
        if live.is_plain
        and len(board.active(live.task.server)) == 1
        and any(
            other is not live
            and other.began_before(live, surely=surely)
            and live.promised[0] in other.promised
            for other in running
        )
    ]


def _leads_to(live: LiveTask, on_path: set[TreeNode], first: TreeNode) -> bool:
    last = live.promised[-1] if live.promised else None
    return last is not None and last in on_path and last.position < first.position


def _first_position(active: list[LiveTask]) -> int:
    news = (node.position for live in active for node in live.promised if node.awaits_verdict)
    return min(news, default=-1)
