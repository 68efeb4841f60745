"""Group: all requests of one DSI group; who may use which server, and how far they speculate.

Events of servers in, commands out. The coordinator drives it over Ray, experiments in virtual time.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from dsi_ray.core.decoders import DSI, Request
from dsi_ray.core.decoders.dispatch import least_needed
from dsi_ray.core.group.hang_detector import HangDetector, expected_seconds
from dsi_ray.core.group.poison import CONVICTED
from dsi_ray.core.group.pool import TargetPool
from dsi_ray.core.group.request_state import Job, JobError, RequestState, RoutedCommand
from dsi_ray.core.messages import (
    Command,
    Emit,
    Ended,
    EndReason,
    Event,
    Output,
    Release,
    Role,
    ServerId,
    Start,
)
from dsi_ray.core.planning.performance_model import PerformanceModel


class Group:
    """The requests of one group and its servers.

    Args:
        targets: The target servers.
        drafters: The drafters, by rank.
        pace: What is measured; kept up to date.
        contexts: Most tokens that a drafter takes; none is as many as the targets.

    Attributes:
        pool: Which target servers serve which request.
        pace: What is measured.
        moves: How often a request in flight got another server.
        moved_tokens: How many tokens had to be computed again there.
    """

    def __init__(
        self,
        targets: Iterable[ServerId],
        drafters: Iterable[ServerId],
        pace: PerformanceModel,
        contexts: Mapping[ServerId, int] | None = None,
    ) -> None:
        self.pool = TargetPool(targets)
        self.pace = pace
        self.moves = 0
        self.moved_tokens = 0
        self._drafters = list(drafters)
        self._contexts = contexts or {}
        self._watch = HangDetector()
        self._now = 0.0
        """When it was last asked for servers that are overdue."""
        self._members: dict[str, RequestState] = {}
        self._away: set[ServerId] = set()
        """Target servers that were lost, or given up, and are not back."""
        self._fresh: set[ServerId] = set()
        """Those that are back and have computed nothing since."""
        self._of_task: dict[int, tuple[RequestState, ServerId]] = {}
        self._task_ids = itertools.count()

    @property
    def members(self) -> list[RequestState]:
        """The requests in flight, and those whose last tasks are still ending."""
        return list(self._members.values())

    @property
    def tasks(self) -> int:
        """How many tasks there are whose end was not heard."""
        return len(self._of_task)

    @property
    def busy(self) -> set[ServerId]:
        """The servers that have tasks."""
        return {server for _, server in self._of_task.values()}

    def tasks_of(self, server: ServerId) -> list[int]:
        """The tasks of a server whose end was not heard, in the order in which they were sent."""
        return [task for task, (_, where) in self._of_task.items() if where == server]

    def of_task(self, task: int) -> tuple[RequestState, ServerId] | None:
        """The request and the server of a task whose end was not heard."""
        return self._of_task.get(task)

    def admit(self, job: Job) -> tuple[RequestState, list[RoutedCommand]]:
        """Begins a request.

        Raises:
            JobError: One of this id is in flight.
        """
        if job.id in self._members:
            raise JobError(f"a request {job.id} is in flight: give each an id of its own")
        said = self._collect(job.sp_degree)
        request = Request(
            job.id,
            job.prompt,
            job.criteria,
            self.pool.admit(job.id, job.sp_degree),
            tuple(self._drafters) if job.drafted else (),
            self._task_ids,
            job.rejection,
            self._contexts,
        )
        member = RequestState(job, job.decoder(request, self.pace))
        self._members[job.id] = member
        self._adapt(member)
        start = member.decoder.start() if member.decoder.targets else []
        return member, said + self._note(member, start)

    def handle(self, events: Iterable[Event]) -> list[RoutedCommand]:
        """Takes in what happened at one moment."""
        suspects = self.pool.isolates
        by_member: dict[str, list[Event]] = {}
        for event in events:
            entry = self._of_task.get(event.task)
            if entry is None:
                continue
            member, server = entry
            self._watch.hear(server)
            if isinstance(event, Output) and event.seconds:
                self._observe(server, event)
            if not (isinstance(event, Output) and event.goes_on):
                del self._of_task[event.task]
            by_member.setdefault(member.job.id, []).append(event)
        said: list[RoutedCommand] = []
        for request, news in by_member.items():
            member = self._members[request]
            self._adapt(member)
            commands = member.decoder.handle(news)
            said += self._note(member, commands)
            if member.blame.suspected and any(map(_goes_on, commands)):
                member.blame.clear()
                self.pool.mingle(request)
            said += self._leave_shared(member)
            said += self._settle(member)
        return said + self._grow() if suspects else said

    def leave(self, request: str) -> list[RoutedCommand]:
        """Ends a request: its client has all, or has gone. An unknown one is fine."""
        member = self._members.get(request)
        if member is None or member.decoder.over:
            return []
        return self._note(member, member.decoder.abandon()) + self._settle(member)

    def lose(self, server: ServerId) -> list[RoutedCommand]:
        """A server died: what it did is done elsewhere.

        Unless that may be why: a request over which several died, one after another, fails.
        """
        lost = self.tasks_of(server)
        aboard = self._aboard(server)
        was_used = self.pool.serves(server) or server in self._drafters
        users = self._give_up(server)
        for member in self._members.values():
            member.known.discard(server)
            member.decoder.lose(server)
        said = self._blame(server, aboard, users) if was_used else []
        return said + self.handle(map(self._end, lost)) + self._rescue()

    def _end(self, task: int) -> Ended:
        """How a task ends whose server died."""
        member, _ = self._of_task[task]
        if member.blame.convicted:
            return Ended(task, EndReason.FAILED, CONVICTED)
        return Ended(task, EndReason.LOST)

    def overdue(self, now: float) -> dict[ServerId, float]:
        """Servers whose news is overdue, and how long they were given for it, in seconds.

        To be asked now and then; ``now`` is in seconds, on any clock.
        """
        self._now = now
        owed: dict[ServerId, float] = {}
        for task, (member, server) in self._of_task.items():
            live = member.decoder.verifying.find(task) or member.decoder.drafting.find(task)
            if live is not None:
                expected = expected_seconds(live.task, self.pace)
                owed[server] = max(expected, owed.get(server, 0.0))
        return self._watch.overdue(now, owed)

    def suspect(self, server: ServerId) -> list[RoutedCommand]:
        """A server may hang: others do its work until it is restored or lost.

        What it still reports counts. The last target server is not given up: there is no other.
        Nor is one on which a request is tried that may be why: it would hang others as well.
        """
        if server.role is Role.TARGET:
            tried = any(member.blame.is_tried_on(server) for member in self._going_on())
            given_up = self.pool.serves(server) and self.pool.size > 1 and not tried
        else:
            given_up = server in self._drafters
        if not given_up:
            return []
        users = self._give_up(server)
        said = self._blame(server, self._aboard(server), users)
        for member in self._going_on():
            if member.job.id in users:
                said += self._note(member, member.decoder.drop_target(server))
            elif server in member.decoder.drafting.servers:
                said += self._note(member, member.decoder.drop_drafter(server))
        return said + self._rescue()

    def restore(self, server: ServerId) -> list[RoutedCommand]:
        """A server is back, or new."""
        if server.role is Role.TARGET:
            self.pool.restore(server)
            if server in self._away and not self._aboard(server):
                self._fresh.add(server)
            self._away.discard(server)
            return self._grow()
        self._drafters = sorted({*self._drafters, server})
        said: list[RoutedCommand] = []
        for member in self._going_on():
            if member.job.drafted and member.blame.may_draft:
                said += self._note(member, member.decoder.add_drafter(server))
        return said

    def _rescue(self) -> list[RoutedCommand]:
        """Finds servers for the requests that have none left."""
        said: list[RoutedCommand] = []
        for _ in self.pool.without:
            said += self._collect(1) + self._grow()
        return said

    def _going_on(self) -> list[RequestState]:
        return [member for member in self._members.values() if not member.decoder.over]

    def _aboard(self, server: ServerId) -> list[RequestState]:
        """The requests that have tasks on a server, also those that are over."""
        aboard = (member for member, where in self._of_task.values() if where == server)
        return list(dict.fromkeys(aboard))

    def _give_up(self, server: ServerId) -> list[str]:
        """Uses a server no more until it is back; returns the requests that had a target server."""
        if server.role is Role.DRAFTER:
            self._drafters = [drafter for drafter in self._drafters if drafter != server]
            return []
        self._away.add(server)
        self._fresh.discard(server)
        return self.pool.lose(server)

    def _blame(
        self, server: ServerId, aboard: list[RequestState], users: list[str]
    ) -> list[RoutedCommand]:
        """Any of those that a server computed for its users may be why it died, or hangs."""
        said: list[RoutedCommand] = []
        for member in [member for member in aboard if not member.decoder.over]:
            if server.role is Role.DRAFTER:
                said += self._blame_drafts(member)
                continue
            member.blame.accuse(server, self._now, alone=users == [member.job.id])
            for shared in self.pool.isolate(member.job.id):
                said += self._take(member, shared)
        return said

    def _blame_drafts(self, member: RequestState) -> list[RoutedCommand]:
        """A drafter was lost that drafted for a request: in the end it goes on without any."""
        said: list[RoutedCommand] = []
        member.blame.drafters += 1
        for drafter in member.decoder.drafting.servers if not member.blame.may_draft else []:
            said += self._note(member, member.decoder.drop_drafter(drafter))
        return said

    def _quarantine(self) -> list[RoutedCommand]:
        """Gives suspects servers to themselves.

        Who needs one that has computed nothing waits until one is back, and comes first then.
        """
        said: list[RoutedCommand] = []
        waiting = [self._members[request] for request in self.pool.waiting]
        for member in sorted(waiting, key=lambda member: not member.blame.needs_cell):
            only = self._fresh if member.blame.needs_cell and self._away | self._fresh else None
            if (place := self.pool.confine(member.job.id, only)) is None:
                continue
            server, users = place
            member.blame.cell = server if server in self._fresh else None
            for user in users:
                said += self._take(self._members[user], server)
            said += self._note(member, member.decoder.add_target(server))
        return said

    def _note(self, member: RequestState, commands: Sequence[Command]) -> list[RoutedCommand]:
        """Remembers the tasks that are started."""
        for command in commands:
            if isinstance(command, Start):
                self._of_task[command.task.id] = member, command.task.server
                self._fresh.discard(command.task.server)
                member.known.add(command.task.server)
        return [(member, command) for command in commands]

    def _adapt(self, member: RequestState) -> None:
        """Plans anew for a request whose servers have changed, or whose drafts were judged.

        Without either only the measured latencies have changed, and these by little.
        """
        if not member.job.adapts or not isinstance(member.decoder, DSI):
            return
        tree = member.decoder.tree
        crowd, servers = self.pool.crowd(member.job.id), len(member.decoder.targets)
        basis = crowd, servers, tree.accepted + tree.rejected
        if basis != member.planned_on:
            member.planned_on = basis
            self.pace.adapt(member.decoder, crowd)

    def _observe(self, server: ServerId, output: Output) -> None:
        seconds = output.seconds / output.forwards
        if server.role is Role.TARGET:
            self.pace.observe_target(seconds)
        else:
            self.pace.observe_drafter(seconds)

    def _collect(self, most: int) -> list[RoutedCommand]:
        """Takes servers from requests with many, so that one can have its share of ``most``."""
        said: list[RoutedCommand] = []
        for donor in self.pool.donors(most):
            giver = self._members[donor]
            server = least_needed(giver.decoder.verifying, self.pool.own(donor))
            said += self._take(giver, server)
        return said

    def _take(self, member: RequestState, server: ServerId) -> list[RoutedCommand]:
        self.pool.take(member.job.id, server)
        return self._note(member, member.decoder.drop_target(server))

    def _leave_shared(self, member: RequestState) -> list[RoutedCommand]:
        """Leaves the servers that others use too, once one of its own is ready."""
        said: list[RoutedCommand] = []
        own = self.pool.own(member.job.id)
        if not member.decoder.over and any(server in member.decoder.targets for server in own):
            for server in self.pool.shared(member.job.id):
                said += self._take(member, server)
        return said

    def _settle(self, member: RequestState) -> list[RoutedCommand]:
        """Frees the servers of a request that is over; forgets it once all its tasks have ended."""
        if not member.decoder.over:
            return []
        said: list[RoutedCommand] = []
        if member.job.id in self.pool:
            self.pool.release(member.job.id)
            said = self._grow()
        if member.decoder.idle and member.job.id in self._members:
            del self._members[member.job.id]
            tree = member.decoder.tree
            self.pace.observe_request(tree.accepted, tree.rejected)
            said.append((member, Release(tuple(sorted(member.known)))))
        return said

    def _grow(self) -> list[RoutedCommand]:
        """Gives servers that nobody uses to requests that can use them, to suspects first."""
        said = self._quarantine()
        for request, server in self.pool.grow():
            member = self._members[request]
            if member.decoder.targets:
                self.moves += 1
                self.moved_tokens += len(member.decoder.tree.tokens)
            said += self._note(member, member.decoder.add_target(server))
        return said


def _goes_on(command: Command) -> bool:
    return isinstance(command, Emit) and command.finish is None
