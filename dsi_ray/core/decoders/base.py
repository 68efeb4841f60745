"""What the decoders share: events in, commit, commands out."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders.board import LiveTask, TaskBoard
from dsi_ray.core.messages import (
    Cancel,
    Command,
    Emit,
    Ended,
    EndReason,
    Event,
    Fail,
    FinishReason,
    Mode,
    Output,
    Role,
    ServerId,
    Start,
    Task,
    TokenLogprobs,
)
from dsi_ray.core.tree import TokenTree, TreeNode


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be decoded, and where.

    Attributes:
        id: Unique among the requests in flight.
        prompt: At least one token id.
        criteria: When the text ends.
        targets: The target servers that it begins with; their number is its SP degree.
        drafters: The drafters, by rank.
        task_ids: Source of task ids, shared by all requests of a coordinator.
        rejection: Drafts are verified by rejection sampling. Whether a draft is there in time must
            then not depend on what it is, or the text would be biased: one drafter guesses at a
            time, and nobody looks at its tokens.
        contexts: Most tokens that a drafter takes, where that is fewer than the targets take.
    """

    id: str
    prompt: Sequence[int]
    criteria: StopCriteria
    targets: Sequence[ServerId]
    drafters: Sequence[ServerId] = ()
    task_ids: "itertools.count[int]" = field(default_factory=itertools.count)
    rejection: bool = False
    contexts: Mapping[ServerId, int] = field(default_factory=dict)

    @property
    def draft_stops(self) -> frozenset[int]:
        """Ids after which nothing is drafted."""
        return frozenset() if self.rejection else self.criteria.stop_ids

    @property
    def end(self) -> int:
        """The first position that is not generated."""
        return len(self.prompt) + self.criteria.max_tokens

    def draft_end(self, drafter: ServerId) -> int:
        """The first position that a drafter does not guess.

        The last token of a text needs no draft, and beyond its context a drafter has none.
        """
        return min(self.end - 1, self.contexts.get(drafter, self.end))


@dataclass(slots=True)
class Counts:
    """What a request cost so far, forwards by role and tasks that did not end by themselves."""

    drafted_tokens: int = 0
    target_forwards: int = 0
    drafter_forwards: int = 0
    cancelled_tasks: int = 0


class Decoder(ABC):
    """Decodes one request. Deterministic: the same events give the same commands.

    Attributes:
        tree: Committed tokens, drafts and verdicts.
        verifying: The tasks on the target servers.
        drafting: The tasks on the drafters.
        finish: Why the text ended; None while it goes on.
        over: Whether nothing more will be committed: finished, failed or abandoned.
        counts: What it cost.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.tree = TokenTree(request.prompt)
        self.verifying = TaskBoard(request.targets)
        self.drafting = TaskBoard(request.drafters)
        self.finish: FinishReason | None = None
        self.over = False
        self.counts = Counts()
        self._filling: dict[int, ServerId] = {}
        """Prefills on target servers that may be used once they have ended."""

    @property
    def targets(self) -> list[ServerId]:
        """The target servers that it uses now."""
        return self.verifying.servers

    @property
    def idle(self) -> bool:
        """Whether the end of every task was heard."""
        return not self.verifying and not self.drafting

    def start(self) -> list[Command]:
        """The first commands."""
        return self._next()

    def handle(self, events: Sequence[Event]) -> list[Command]:
        """Takes in what happened at one moment; returns what to do, most urgent first."""
        failures = [failure for event in events if (failure := self._apply(event)) is not None]
        if self.over:
            return []
        if failures:
            return [failures[0], *self.abandon()]
        news = self._commit()
        if self.finish is not None:
            return [news, *self.abandon()]
        commands = self._go_on()
        if news.tokens:
            commands.append(news)
        return commands + [cancel(self.verifying, live) for live in self._stale()]

    def add_target(self, server: ServerId) -> list[Command]:
        """Lets the request use another target server, as soon as its KV cache is filled.

        If it is the only one the request goes on there at once.
        """
        needs_filling = self.targets and len(self.tree.tokens) > 1
        self.verifying.add(server)
        if not needs_filling:
            return self._go_on()
        # Until then it takes no block: the text would wait for the prefill.
        self.verifying.retire(server)
        prefill = self._prefill(server)
        self._filling[prefill.task.id] = server
        return [prefill]

    def drop_target(self, server: ServerId) -> list[Command]:
        """Takes a target server away; what it was needed for goes to another."""
        unwanted = self.verifying.retire(server)
        self._filling = {task: filled for task, filled in self._filling.items() if filled != server}
        cancels = [cancel(self.verifying, live) for live in unwanted]
        return [*self._go_on(), *cancels]

    def lose(self, server: ServerId) -> None:
        """A server is gone: nothing more is sent to it. The ends of its tasks come as events."""
        for board in (self.verifying, self.drafting):
            if server in board.servers:
                board.retire(server)

    def add_drafter(self, server: ServerId) -> list[Command]:
        """Lets a drafter guess for the request."""
        self.drafting.add(server)
        return self._go_on()

    def drop_drafter(self, server: ServerId) -> list[Command]:
        """Takes a drafter away; what it has drafted stays."""
        self.lose(server)
        cancels = [cancel(self.drafting, live) for live in self.drafting.retire(server)]
        return [*self._go_on(), *cancels]

    def _go_on(self) -> list[Command]:
        """New tasks, unless there is no target server at all: then everything waits."""
        return self._next() if self.targets else []

    def abandon(self) -> list[Command]:
        """Cancels every task: the request is finished, has failed, or nobody wants it.

        That includes those displaced while queued: such a task may have begun to run before.
        """
        self.over = True
        return [
            cancel(board, live)
            for board in (self.verifying, self.drafting)
            for live in board
            if live.displaced is not Mode.REPLACE
        ]

    @abstractmethod
    def _next(self) -> list[Command]:
        """New tasks, after the events of one moment were taken in."""

    def _commit(self) -> Emit:
        tokens: list[int] = []
        logprobs: list[TokenLogprobs] = []
        judged = self.tree.root
        while self.finish is None and (token := self.tree.advance()) is not None:
            tokens.append(token)
            if judged.logprobs is not None:
                logprobs.append(judged.logprobs)
            judged = self.tree.root
            count = len(self.tree.tokens) - len(self.request.prompt)
            self.finish = self.request.criteria.finish(count, token)
        return Emit(tuple(tokens), self.finish, tuple(logprobs))

    def _apply(self, event: Event) -> Fail | None:
        """Takes one event in; returns a failure that ends the request."""
        board = self.verifying if self.verifying.find(event.task) else self.drafting
        live = board.find(event.task)
        if live is None:
            return None
        if isinstance(event, Output):
            self._apply_output(live, event)
            return None
        board.end(live)
        filled = self._filling.pop(event.task, None)
        match event.reason:
            case EndReason.DONE if filled is not None:
                board.add(filled)
            case EndReason.FAILED | EndReason.LOST:
                return self._apply_failure(board, live, event)
            case EndReason.CANCELLED | EndReason.REPLACED:
                self.counts.cancelled_tasks += 1
        return None

    def _apply_output(self, live: LiveTask, output: Output) -> None:
        node = live.path_before(output.start)
        server = live.task.server
        if server.role is Role.TARGET:
            self.counts.target_forwards += output.forwards
            tip = self.tree.judge(node, output.tokens, output.logprobs)
            self.verifying.report(live, output, tip)
        else:
            self.counts.drafter_forwards += output.forwards
            self.counts.drafted_tokens += len(output.tokens)
            tip = self.tree.draft(node, output.tokens, server.index, output.proposals)
            self.drafting.report(live, output, tip)

    def _apply_failure(self, board: TaskBoard, live: LiveTask, event: Ended) -> Fail | None:
        """A server that died is used no more; what a target cannot compute ends the request.

        Without a drafter it only goes on more slowly.
        """
        server = live.task.server
        board.retire(server)
        if server.role is Role.TARGET and event.reason is EndReason.FAILED:
            return Fail(event.error or f"{server} failed", event.param)
        return None

    def _prefill(self, server: ServerId) -> Start:
        """Fills a server's KV cache with all but the last of the committed tokens."""
        tokens = self.tree.tokens.upto(len(self.tree.tokens) - 1)
        task = Task(next(self.request.task_ids), self.request.id, server, tokens, len(tokens) + 1)
        self.verifying.start(task, [], Mode.REPLACE)
        return Start(task, Mode.REPLACE)

    def _verify(self, server: ServerId, mode: Mode, nodes: list[TreeNode], *, alone: bool) -> Start:
        """A task for a target server that reports at ``nodes``, a stretch of a path."""
        tokens = self.tree.tokens_to(nodes[-1])
        task = Task(
            next(self.request.task_ids),
            self.request.id,
            server,
            tokens,
            start=nodes[0].position + 1,
            limit=self.request.end if alone else 0,
            stops=self.request.criteria.stop_ids,
            proposals=tuple(node.proposal for node in nodes) if self.request.rejection else (),
        )
        self.verifying.start(task, nodes, mode)
        return Start(task, mode)

    def _draft(self, server: ServerId, mode: Mode, tip: TreeNode, limit: int, report: int) -> Start:
        """A task for a drafter that goes on from ``tip`` while the position is below ``limit``."""
        task = Task(
            next(self.request.task_ids),
            self.request.id,
            server,
            tokens := self.tree.tokens_to(tip),
            start=len(tokens),
            limit=limit,
            stops=self.request.draft_stops,
            report=report,
        )
        self.drafting.start(task, [tip], mode)
        return Start(task, mode)

    def _stale(self) -> list[LiveTask]:
        """The useless tasks that are to be cancelled, in the order in which they were sent."""
        return [
            live
            for live in self.verifying
            if live.displaced is None and not live.task.is_prefill and not live.useful
        ]


def cancel(board: TaskBoard, live: LiveTask) -> Cancel:
    """The command that ends a task."""
    board.displace(live)
    return Cancel(live.task.id)
