"""TaskBoard: what is known of a server's tasks when messages cross on their way."""

import itertools

import pytest

from dsi_ray.core.decoders.board import LiveTask, TaskBoard
from dsi_ray.core.messages import Mode, Output, Role, ServerId, Task
from dsi_ray.core.tree import TokenTree, TreeNode

SERVER = ServerId(Role.TARGET, 0)


class Desk:
    """A board of one server, and the tree whose nodes its tasks promise."""

    def __init__(self) -> None:
        self.tree = TokenTree([0])
        self.board = TaskBoard([SERVER])
        self._ids = itertools.count()

    def send(self, nodes: list[TreeNode], mode: Mode) -> LiveTask:
        """Sends a task that reports at ``nodes``."""
        tokens = self.tree.tokens_to(nodes[-1])
        task = Task(next(self._ids), "request", SERVER, tokens, nodes[0].position + 1)
        return self.board.start(task, nodes, mode)

    def hear(self, live: LiveTask, start: int, *tokens: int, goes_on: bool) -> TreeNode:
        """Hears a task's own ``tokens``; returns its tip."""
        tip = self.tree.judge(live.path_before(start), tokens)
        self.board.report(live, Output(live.task.id, start, tokens, goes_on), tip)
        return tip


@pytest.fixture
def desk() -> Desk:
    """A server without work."""
    return Desk()


def test_a_replaced_task_promises_nothing(desk: Desk) -> None:
    root = desk.tree.root
    drafted = desk.tree.draft(root, [1], 0)
    first = desk.send([drafted], Mode.REPLACE)
    second = desk.send([root], Mode.REPLACE)
    assert first.displaced is Mode.REPLACE
    assert desk.board.active(SERVER) == [second]
    assert desk.board.promised() == {root}


def test_at_most_one_task_is_queued(desk: Desk) -> None:
    root, one, two = desk.tree.path(desk.tree.draft(desk.tree.root, [1, 2], 0))
    running = desk.send([root], Mode.REPLACE)
    desk.send([one], Mode.QUEUE)
    longer = desk.send([one, two], Mode.QUEUE)
    assert desk.board.active(SERVER) == [running, longer]
    assert desk.board.queued(SERVER) is longer


def test_a_task_heard_of_was_not_displaced(desk: Desk) -> None:
    root, one, two = desk.tree.path(desk.tree.draft(desk.tree.root, [1, 2], 0))
    running = desk.send([root], Mode.REPLACE)
    crossed = desk.send([one], Mode.QUEUE)
    desk.send([one, two], Mode.QUEUE)
    desk.hear(running, 1, 1, goes_on=False)
    desk.hear(crossed, 2, 2, goes_on=True)
    assert crossed.displaced is None


def test_a_task_that_ends_first_had_waited_for_the_one_before(desk: Desk) -> None:
    root, one, two = desk.tree.path(desk.tree.draft(desk.tree.root, [1, 2], 0))
    running = desk.send([root], Mode.REPLACE)
    crossed = desk.send([one], Mode.QUEUE)
    longer = desk.send([one, two], Mode.QUEUE)
    desk.hear(running, 1, 1, goes_on=False)
    desk.board.end(longer)
    assert desk.board.active(SERVER) == [crossed]
    assert one in desk.board.promised()


def test_while_it_is_unknown_which_task_runs_one_may_be_queued(desk: Desk) -> None:
    root, one, two = desk.tree.path(desk.tree.draft(desk.tree.root, [1, 2], 0))
    running = desk.send([root], Mode.REPLACE)
    crossed = desk.send([one], Mode.QUEUE)
    longer = desk.send([one, two], Mode.QUEUE)
    desk.hear(running, 1, 1, goes_on=False)
    assert desk.board.queued(SERVER) is longer
    desk.board.end(crossed)
    assert desk.board.queued(SERVER) is None


def test_a_successor_that_was_overtaken_promises_what_follows_the_own_path(desk: Desk) -> None:
    root, one = desk.tree.path(desk.tree.draft(desk.tree.root, [1], 0))
    running = desk.send([root], Mode.REPLACE)
    desk.hear(running, 1, 1, goes_on=True)
    desk.send([one], Mode.QUEUE)
    tip = desk.hear(running, 2, 2, goes_on=False)
    assert tip in desk.board.promised()


def test_a_contradicted_successor_leaves_the_one_it_was_to_displace(desk: Desk) -> None:
    root, one, two = desk.tree.path(desk.tree.draft(desk.tree.root, [1, 2], 0))
    running = desk.send([root], Mode.REPLACE)
    desk.hear(running, 1, 1, goes_on=True)
    crossed = desk.send([one], Mode.QUEUE)
    desk.send([one, two], Mode.QUEUE)
    tip = desk.hear(running, 2, 7, goes_on=False)
    assert crossed.displaced is None
    assert tip in desk.board.promised()
