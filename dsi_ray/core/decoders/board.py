"""TaskBoard: what is known of the tasks that a request has on its servers.

Known is what was started and whose end was not heard; nothing is inferred about a server.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dsi_ray.core.messages import Mode, Output, ServerId, Task
from dsi_ray.core.tree import NodeState, TreeNode


@dataclass(slots=True, eq=False)
class LiveTask:
    """A task whose end was not heard.

    Attributes:
        task: As it was sent.
        promised: The nodes at which it will report next, in order of position.
        tip: The end of its own path, as far as it was heard.
        started: Order in which tasks, and steps of tasks that go on alone, began.
        sent: Order in which tasks were sent: the same as ``started`` until news of it comes.
        displaced: By which later task, if any; it ends, or has ended, for that.
    """

    task: Task
    promised: list[TreeNode]
    tip: TreeNode
    started: int
    sent: int
    displaced: Mode | None = None

    @property
    def useful(self) -> bool:
        """Whether anything that it will report is still news."""
        return any(node.awaits_verdict for node in self.promised)

    @property
    def contradicted(self) -> bool:
        """Whether its path cannot come true any more."""
        return bool(self.promised) and self.promised[-1].state is NodeState.DEAD

    def began_before(self, other: "LiveTask", *, surely: bool) -> bool:
        """Whether it began what it does now no later than the other.

        ``surely`` minds that news of the other, a step that it began by itself, may have been on
        its way when this task was sent, and trusts only that all messages take as long.
        """
        unheard = self.started == self.sent
        return self.started <= (other.sent if surely and unheard else other.started)

    @property
    def is_plain(self) -> bool:
        """Whether it is doing a decode step: one token, no draft."""
        return len(self.promised) == 1

    def path_before(self, position: int) -> TreeNode:
        """The node on the task's path at ``position - 1``."""
        for node in self.promised:
            if node.position == position - 1:
                return node
        return self.tip


class TaskBoard:
    """The live tasks of one request, by server and in the order in which they were sent."""

    def __init__(self, servers: Iterable[ServerId]) -> None:
        self._by_server: dict[ServerId, list[LiveTask]] = {server: [] for server in servers}
        self._retired: set[ServerId] = set()
        self.servers = list(self._by_server)
        """Those that take tasks, in order."""
        self._tasks: dict[int, LiveTask] = {}
        self._clock = itertools.count()

    def add(self, server: ServerId) -> None:
        """Takes a server in, or in again."""
        self._by_server.setdefault(server, [])
        self._retired.discard(server)
        self._choose_servers()

    def retire(self, server: ServerId) -> list[LiveTask]:
        """Gives no more tasks to a server; returns those that it has, which are to be cancelled."""
        self._retired.add(server)
        self._choose_servers()
        return [live for live in self._by_server[server] if live.displaced is not Mode.REPLACE]

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[LiveTask]:
        return iter(self._tasks.values())

    def find(self, task: int) -> LiveTask | None:
        """The live task with this id."""
        return self._tasks.get(task)

    def active(self, server: ServerId) -> list[LiveTask]:
        """The running and the queued task of a server: at most two, displaced ones left out."""
        return [live for live in self._by_server[server] if live.displaced is None]

    def queued(self, server: ServerId) -> LiveTask | None:
        """The task of a server that waits for another, as far as is known.

        A task displaced while queued may have begun to run just before; then the one that was to
        take its place waits for it.
        """
        tasks = [live for live in self._by_server[server] if live.displaced is not Mode.REPLACE]
        return tasks[-1] if len(tasks) > 1 else None

    def promised(self) -> set[TreeNode]:
        """The nodes at which a verdict is coming."""
        return {
            node
            for live in self._tasks.values()
            if live.displaced is None
            for node in live.promised
        }

    def start(self, task: Task, nodes: list[TreeNode], mode: Mode) -> LiveTask:
        """Notes a task that is being sent; ``nodes`` are those at which it will report."""
        before = self.active(task.server)
        waits = bool(before) and (mode is Mode.QUEUE or before[0].task.is_prefill)
        for live in before[1:] if waits else before:
            live.displaced = mode
        tip = nodes[0] if nodes else TreeNode(task.tokens[-1], len(task.tokens) - 1, None)
        now = next(self._clock)
        live = LiveTask(task, nodes, tip, now, now)
        self._tasks[task.id] = live
        self._by_server[task.server].append(live)
        return live

    def report(self, live: LiveTask, output: Output, tip: TreeNode) -> None:
        """Notes what a task reported; its own path now ends at ``tip``."""
        live.tip = tip
        live.started = next(self._clock)
        live.promised = [tip]
        if live.displaced is Mode.QUEUE:
            live.displaced = None
        self._restore_before(live)
        if not output.goes_on:
            self.end(live)
            if live.displaced is None:
                self._hand_over(live.task.server, tip)

    def displace(self, live: LiveTask) -> None:
        """Notes that a task is being cancelled."""
        live.displaced = Mode.REPLACE

    def end(self, live: LiveTask) -> None:
        """Notes the end of a task; the one behind it is running now."""
        self._restore_before(live)
        del self._tasks[live.task.id]
        tasks = self._by_server[live.task.server]
        tasks.remove(live)
        for successor in self.active(live.task.server)[:1]:
            successor.started = next(self._clock)

    def _choose_servers(self) -> None:
        self.servers = [server for server in self._by_server if server not in self._retired]

    def _restore_before(self, live: LiveTask) -> None:
        """Tasks that were to be displaced while queued, but had begun to run by then.

        Reports of a server come in order: had ``live`` displaced them, their end would be known.
        """
        tasks = self._by_server[live.task.server]
        for earlier in tasks[: tasks.index(live)]:
            if earlier.displaced is Mode.QUEUE:
                earlier.displaced = None

    def _hand_over(self, server: ServerId, tip: TreeNode) -> None:
        """A task ended for the one queued behind it, which goes on from its own path.

        A task contradicted by now was not the one, so the one that it was to displace is running.
        """
        tasks = [live for live in self._by_server[server] if live.displaced is not Mode.REPLACE]
        agreeing = [live for live in tasks if live.promised and not live.contradicted]
        if agreeing and all(live.displaced is Mode.QUEUE for live in agreeing):
            agreeing[0].displaced = None
        for live in agreeing:
            if live.promised[-1].position < tip.position:
                live.promised.append(tip)
