"""Distributed speculative inference: Algorithm 1 (Timor et al., ICLR 2025) with a lookahead."""

from dataclasses import dataclass

from dsi_ray.core.decoders.base import Decoder, Request, cancel
from dsi_ray.core.decoders.board import LiveTask, TaskBoard
from dsi_ray.core.decoders.dispatch import (
    Place,
    idle_servers,
    place_anchor,
    place_block,
    stale_servers,
)
from dsi_ray.core.messages import Command, Ended, Event, Fail, Mode, Output, ServerId, Start
from dsi_ray.core.tree import NodeState, TreeNode

_SHORT_PROMPT = 16
"""A forward of this many tokens takes about as long as one of a single token."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How far drafting and verification are cut up.

    Attributes:
        lookahead: Drafts in a verification task, at least (Equation 1).
        run_ahead: Most tokens between the last committed one and the end of a draft; 0 does
            without drafts.
        first_block: With one target server: after a rejection this many drafts, as soon as they
            are there, replace the decode step that began meanwhile. That pays in the mean where
            drafts are cheap, and costs the guarantee that no text takes longer than plain
            decoding; 0 lets the step run to its end.
        far: Messages take a good part of a target forward. Then a decode step is given up only for
            one that surely began earlier: otherwise every rejection may cost a round trip. Where
            messages are short, the server that this frees too late would be the greater loss.
    """

    lookahead: int
    run_ahead: int
    first_block: int = 0
    far: bool = False

    def __post_init__(self) -> None:
        if self.run_ahead and not 1 <= self.lookahead <= self.run_ahead:
            raise ValueError("a plan needs 1 <= lookahead <= run_ahead")
        if not 0 <= self.first_block <= self.run_ahead:
            raise ValueError("a plan needs 0 <= first_block <= run_ahead")


@dataclass(slots=True)
class _Drafter:
    server: ServerId
    tip: TreeNode
    """The end of its path, as far as it was heard."""
    live: LiveTask | None = None
    silent: bool = False
    """It had no opinion after its tip."""
    sent: int = 0
    """The position up to which its path went into blocks."""

    began: TreeNode | None = None
    """After which its last task began to draft."""


class DSI(Decoder):
    """Drafters run ahead while target servers verify different stretches of the draft.

    Attributes:
        plan: In force; may be replaced between events.
    """

    def __init__(self, request: Request, plan: Plan) -> None:
        super().__init__(request)
        self.plan = plan
        self._drafters = [_Drafter(server, self.tree.root) for server in request.drafters]

    def start(self) -> list[Command]:
        """Starts the drafters and the anchor, and prefills the other target servers."""
        commands = self._next()
        busy = {live.task.server for live in self.verifying}
        others = [server for server in self.targets if server not in busy]
        if len(self.request.prompt) > 1:
            commands += [self._prefill(server) for server in others]
        return commands

    def lose(self, server: ServerId) -> None:
        """A server died: nothing more is sent to it."""
        super().lose(server)
        self._drafters = [drafter for drafter in self._drafters if drafter.server != server]

    def add_drafter(self, server: ServerId) -> list[Command]:
        """Lets a drafter guess for the request."""
        self._drafters.append(_Drafter(server, self.tree.root))
        self._drafters.sort(key=lambda drafter: drafter.server)
        return super().add_drafter(server)

    def _next(self) -> list[Command]:
        commands: list[Command] = []
        drafters = self._drafters[:1] if self.request.rejection else self._drafters
        for drafter in drafters:
            commands += self._drive(drafter)
        commands += self._anchor()
        for drafter in drafters:
            commands += self._overtake(drafter)
            commands += self._dispatch(drafter)
        return commands

    def _apply(self, event: Event) -> Fail | None:
        failure = super()._apply(event)
        if isinstance(event, Ended):
            for drafter in self._drafters:
                if drafter.live is not None and drafter.live.task.id == event.task:
                    drafter.live = None
        return failure

    def _apply_output(self, live: LiveTask, output: Output) -> None:
        super()._apply_output(live, output)
        for drafter in [d for d in self._drafters if d.server == live.task.server]:
            if live.displaced is None:
                drafter.tip = live.tip
            if not output.goes_on and drafter.live is live:
                drafter.live = None
                drafter.silent = not self._closes(live.tip, live.task.limit)

    def _apply_failure(self, board: TaskBoard, live: LiveTask, event: Ended) -> Fail | None:
        failure = super()._apply_failure(board, live, event)
        self._drafters = [d for d in self._drafters if d.server in self.drafting.servers]
        return failure

    def _drive(self, drafter: _Drafter) -> list[Command]:
        """Keeps a drafter on a path that may come true, within the run-ahead."""
        root, end = self.tree.root, self.request.draft_end(drafter.server)
        horizon = min(root.position + 1 + self.plan.run_ahead, end)
        mode = Mode.REPLACE
        if drafter.live is not None:
            if drafter.tip.state is NodeState.AHEAD:
                # Let it run on before it gets to its limit, a message for several tokens.
                if horizon - drafter.live.task.limit < max(1, self.plan.run_ahead // 2):
                    return []
                mode = Mode.QUEUE
            elif drafter.tip.state is NodeState.COMMITTED:
                # The target was faster; what is on its way may still be ahead.
                return []
        if drafter.tip.state is not NodeState.AHEAD:
            drafter.tip, drafter.silent = self._survivor(drafter.tip), False
            drafter.sent = drafter.tip.position
        room = horizon - drafter.tip.position - 1
        if drafter.silent or self._closes(drafter.tip, horizon):
            return self._rest(drafter) if mode is Mode.REPLACE else []
        if drafter.live is None and room < self.plan.lookahead and horizon < end:
            # Less than a block: a task of its own is not worth it.
            return []
        report = self.plan.lookahead
        if self.plan.first_block and drafter.tip is root:
            report = self.plan.first_block
        start = self._draft(drafter.server, mode, drafter.tip, horizon, report)
        drafter.live, drafter.began = self.drafting.find(start.task.id), drafter.tip
        return [start]

    def _rest(self, drafter: _Drafter) -> list[Command]:
        """Ends a draft that has left the path, where there is no other to take its place."""
        live, drafter.live = drafter.live, None
        return [] if live is None else [cancel(self.drafting, live)]

    def _survivor(self, tip: TreeNode) -> TreeNode:
        """Where a drafter goes on that is off its path: where the first that is still on one is.

        What is judged already needs no draft: its path goes on behind that. Nor does a drafter go
        back on a path on which it has got further itself: it would draft the same again.
        """
        own, root = self.tree.survivor(tip), self.tree.root
        for drafter in self._drafters:
            if drafter.tip.state is NodeState.AHEAD and drafter.tip is not root:
                ahead = self.tree.survivor(drafter.tip)
                return own if ahead in self.tree.path(own) else ahead
        return own

    def _closes(self, tip: TreeNode, limit: int) -> bool:
        """Whether no draft follows ``tip``: the text ends there or the limit is reached."""
        ends = tip.token in self.request.draft_stops and tip is not self.tree.root
        return ends or tip.position + 1 >= limit

    def _anchor(self) -> list[Command]:
        """Covers the root if no live task does."""
        root = self.tree.root
        promised = self.verifying.promised()
        if root in promised:
            return []
        tips = (d.tip for d in self._drafters if d.tip.state is NodeState.AHEAD)
        path = self.tree.path(next(tips, root))
        return [self._start_block(place_anchor(self.verifying), _uncovered(path, promised))]

    def _overtake(self, drafter: _Drafter) -> list[Command]:
        """Puts the first block after a rejection in place of the decode step that began with it.

        A long prompt's own step is left alone: it computes more than one token.
        """
        root, server = self.tree.root, self.targets[0]
        path = self.tree.path(drafter.tip)
        if not self.plan.first_block or len(self.targets) > 1:
            return []
        is_first = 1 < len(path) <= self.plan.first_block + 1 and drafter.began is root
        if not is_first or (len(path) <= self.plan.first_block and not self._final(path, drafter)):
            return []
        # A queued task that was contradicted will be dropped; its end may be heard of later.
        running = [live for live in self.verifying.active(server) if not live.contradicted]
        is_prefill = len(self.tree.tokens) == len(self.request.prompt) > _SHORT_PROMPT
        if is_prefill or len(running) != 1 or running[0].promised != [root]:
            return []
        return [self._start_block(Place(server, Mode.REPLACE), path)]

    def _dispatch(self, drafter: _Drafter) -> list[Command]:
        """Sends what the drafter has guessed and nobody verifies, in blocks."""
        commands: list[Command] = []
        path = self.tree.path(drafter.tip)
        while True:
            block = _uncovered(path, self.verifying.promised())
            if not block or not (self._is_whole(block, drafter) or self._final(block, drafter)):
                return commands
            place = place_block(self.verifying, path, block[0], far=self.plan.far)
            if place is None:
                return commands
            if len(idle_servers(self.verifying) + stale_servers(self.verifying)) > 1:
                block = block[: self.plan.lookahead]
            drafter.sent = max(drafter.sent, block[-1].position)
            commands.append(self._start_block(place, block))

    def _stale(self) -> list[LiveTask]:
        """Useless tasks, but for those whose place coming blocks take: that is cheaper."""
        return super()._stale()[self.coming_blocks :]

    @property
    def coming_blocks(self) -> int:
        """How many blocks the drafts that are on their way will fill."""
        return sum(
            (drafter.live.task.limit - drafter.sent - 1) // self.plan.lookahead
            for drafter in self._drafters
            if drafter.live is not None and drafter.tip.state is NodeState.AHEAD
        )

    def _is_whole(self, block: list[TreeNode], drafter: _Drafter) -> bool:
        """Whether a block has the whole lookahead, or had before the target came some of its way.

        To wait for others then would cost the drafts that are there.
        """
        drafted = drafter.tip.position - drafter.sent
        return max(len(block), drafted) >= self.plan.lookahead

    def _final(self, block: list[TreeNode], drafter: _Drafter) -> bool:
        """Whether ``block`` will not grow, so that it need not have the whole lookahead."""
        tip = block[-1]
        if tip is not drafter.tip:
            return True
        return drafter.silent or self._closes(tip, self.request.draft_end(drafter.server))

    def _start_block(self, place: Place, nodes: list[TreeNode]) -> Start:
        return self._verify(place.server, place.mode, [*place.prefix, *nodes], alone=True)


def _uncovered(path: list[TreeNode], promised: set[TreeNode]) -> list[TreeNode]:
    """The first stretch of ``path`` without a verdict, known or coming."""
    block: list[TreeNode] = []
    for node in path:
        if node.awaits_verdict and node not in promised:
            block.append(node)
        elif block:
            break
    return block
