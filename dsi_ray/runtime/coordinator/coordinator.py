"""Coordinator: drives a group over the model servers' event streams."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup

from dsi_ray.config import EngineConfig
from dsi_ray.core.group.group import Group
from dsi_ray.core.group.request_state import JobError, RoutedCommand
from dsi_ray.core.messages import (
    Cancel,
    Emit,
    Ended,
    EndReason,
    Event,
    Fail,
    Output,
    Release,
    Role,
    ServerId,
    Start,
)
from dsi_ray.runtime.coordinator.books import Books, Heard
from dsi_ray.runtime.coordinator.clients import Clients
from dsi_ray.runtime.coordinator.decode_jobs import job_of
from dsi_ray.runtime.coordinator.faults import Faults
from dsi_ray.runtime.coordinator.group_status import group_status
from dsi_ray.runtime.coordinator.hang_watch import HangWatch
from dsi_ray.runtime.coordinator.in_flight import Deliver, InFlightRequest
from dsi_ray.runtime.coordinator.outgoing import Outgoing
from dsi_ray.runtime.coordinator.placement import measure_pace, server_models, start_server
from dsi_ray.runtime.coordinator.servers import RemoteServer, Server
from dsi_ray.runtime.errors import EngineError
from dsi_ray.runtime.group_info import GroupInfo
from dsi_ray.runtime.metrics.ray_export import keep_exporting
from dsi_ray.runtime.process.background import Background
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.ray.errors import root_cause
from dsi_ray.runtime.request import Generation, TokenChunk, join
from dsi_ray.runtime.supervisor.backoff import backoff
from dsi_ray.runtime.trace.spans import Trace
from dsi_ray.runtime.transport.calls.lease import Lease
from dsi_ray.runtime.transport.costs import MessageCosts
from dsi_ray.runtime.transport.lanes.handshake import Address
from dsi_ray.runtime.transport.lanes.lane import LaneEnded
from dsi_ray.runtime.transport.lanes.opening import Offer, host_lane

_STATUS_S = 1.0
"""Whoever asks how the group is does not wait longer for a server that hangs."""


class Coordinator:
    """The event loop of one DSI group: events of servers in, commands to servers out.

    A Ray actor. It owns the model servers, so that they end with it.
    """

    def __init__(self, config: EngineConfig, placement: PlacementGroup, index: int) -> None:
        self._config = config
        self._index = index
        self._placement = placement
        self._servers: dict[ServerId, Server] = {
            server: start_server(config, server, placement, index)
            for server in server_models(config)
        }
        self._group: Group
        self._watchman: HangWatch
        self._in_flight: dict[str, InFlightRequest] = {}
        self._books = Books(self._servers, self._in_flight)
        self._clients = Clients(self._begin, self._leave, self._stop)
        self._outgoing = Outgoing()
        self._background = Background()
        self._lost: dict[ServerId, str] = {}
        self._faults = Faults(index)
        self._restarts = 0

    def __repr__(self) -> str:
        return f"Coordinator(group {self._index})"

    async def start(self) -> GroupInfo:
        """Loads all models, warms them up and begins to read the servers' events.

        Raises:
            ModelError: A model cannot be used.
        """
        try:
            infos = await asyncio.gather(*(server.load() for server in self._servers.values()))
        except ray.exceptions.RayTaskError as error:
            raise root_cause(error) from None
        pace = await measure_pace(self._servers)
        drafters = [server for server in self._servers if server.role is Role.DRAFTER]
        targets = [server for server in self._servers if server.role is Role.TARGET]
        of = dict(zip(self._servers, infos, strict=True))
        contexts = {drafter: of[drafter].longest_text for drafter in drafters}
        self._group = Group(targets, drafters, pace, contexts)
        self._watchman = HangWatch(
            self._group, self._servers, self._lost, self._execute, self._faults
        )
        self._background.start(self._watchman.watch())
        for server_id in self._servers:
            self._background.start(self._keep(server_id))
        self._background.start(keep_exporting(self.status))
        self._background.start(self._clients.sweep())
        capacity = min(of[server].kv_capacity for server in targets)
        target = replace(of[targets[0]], kv_capacity=capacity)
        return GroupInfo(
            target,
            tuple(of[drafter] for drafter in drafters),
            target.longest_text,
            self._config.transport,
            self._config.lane_port_numbers,
        )

    async def live(self) -> None:
        """Never returns: who waits for it hears of the coordinator's end."""
        await asyncio.Event().wait()

    async def lane(self, offer: Offer) -> AsyncIterator[Address]:
        """Opens a lane for a client; lasts as long as it."""
        async for address in host_lane(offer, self._clients.attach):
            yield address

    async def submit(self, client: str, ticket: str, generation: Generation) -> None:
        """Begins a request of a client without a lane; see :meth:`Clients.submit`."""
        self._clients.submit(client, ticket, generation)

    async def outputs(self, client: str, life: Lease) -> AsyncIterator[bytes]:
        """Yields what the requests of a client without a lane get; see :meth:`Clients.outputs`."""
        async for item in self._clients.outputs(client, life):
            yield item

    async def abandon(self, ticket: str) -> None:
        """Ends a request of a client without a lane; see :meth:`Clients.abandon`."""
        self._clients.abandon(ticket)

    async def complete(self, generation: Generation) -> TokenChunk:
        """All tokens at once, in one message.

        Raises:
            JobError: It cannot be admitted.
            EngineError: A server failed.
        """
        chunks: list[TokenChunk] = []
        done: asyncio.Future[TokenChunk] = asyncio.get_running_loop().create_future()

        def deliver(chunk: TokenChunk | EngineError) -> None:
            if done.done():
                # The call is being cancelled.
                return
            if isinstance(chunk, EngineError):
                done.set_exception(chunk)
                return
            chunks.append(chunk)
            if chunk.finish_reason is not None:
                done.set_result(join(chunks))

        self._admit(generation, deliver)
        try:
            return await done
        finally:
            self._leave(generation.id)

    async def stop(self, request: str) -> None:
        """Ends a request whose text is complete: a last chunk without tokens follows."""
        self._stop(request)

    async def status(self) -> dict[str, Any]:
        """Requests in flight, what each server does, the latencies in force (ms), all metrics."""
        silent = self._lost.keys() | self._watchman.suspected
        alive = [server for name, server in self._servers.items() if name not in silent]
        servers = await asyncio.gather(
            *(asyncio.wait_for(server.status(), _STATUS_S) for server in alive),
            return_exceptions=True,
        )
        status = {
            **group_status(self._group, self._config.sp_degree),
            "servers": [answer for answer in servers if isinstance(answer, dict)],
            "lost": {str(server): error for server, error in self._lost.items()},
            "suspected": sorted(map(str, self._watchman.suspected)),
            "faults": self._faults.last,
            "restarts": self._restarts,
        }
        return {**status, "metrics": self._books.metrics.snapshot(status, self._in_flight.values())}

    async def message_costs(self) -> list[MessageCosts]:
        """What a message to a target server costs; to be asked while there are no requests."""
        server = self._servers[ServerId(Role.TARGET, 0)]
        return await server.message_costs() if isinstance(server, RemoteServer) else []

    async def trace(self, request: str, since: float) -> list[Trace]:
        """What each server did for a request, or for all parts of one; nothing if unknown."""
        return self._books.traces(request, since)

    def _begin(self, generation: Generation, deliver: Deliver) -> None:
        """Admits a request; what is wrong with it its client hears."""
        try:
            self._admit(generation, deliver)
        except Exception as error:
            deliver(EngineError(f"{type(error).__name__}: {error}"))

    def _admit(self, generation: Generation, deliver: Deliver) -> None:
        arrived = time.perf_counter()
        # What is wrong up to here is the request's own.
        job = job_of(generation)
        with fatal_errors("the begin of a request", JobError):
            member, said = self._group.admit(job)
            trace = self._books.open(member.decoder.request, generation.decoding.algorithm)
            self._in_flight[generation.id] = InFlightRequest(
                generation, member, trace, deliver, arrived
            )
            self._execute(said)

    @fatal_errors("the end of a request")
    def _stop(self, request: str) -> None:
        active = self._in_flight.get(request)
        if active is not None and not active.member.decoder.over:
            active.stop()
            self._leave(request)

    @fatal_errors("the end of a request")
    def _leave(self, request: str) -> None:
        """The client has all, or has gone: what still runs is cancelled."""
        active = self._in_flight.get(request)
        if active is None:
            return
        active.trace.end(active.elapsed)
        abandoned = not active.member.decoder.over
        self._execute(self._group.leave(request))
        if abandoned and request in self._in_flight:
            for server_id in active.member.known:
                self._servers[server_id].cancel_branches(request)

    async def _keep(self, server_id: ServerId) -> None:
        """Reads a server's events; once it has died, starts another in its place."""
        while True:
            server = self._servers[server_id]
            try:
                await server.listen(self._on_events)
            except (ray.exceptions.RayError, LaneEnded, EOFError) as error:
                self._lost[server_id] = self._faults.note(server_id, error)
            self._lose(server_id)
            if not await server.reopen():
                # It may only be out of reach: it would keep its devices from the next.
                server.kill()
                await self._start_again(server_id)
            self._lost.pop(server_id, None)
            self._restarts += 1
            self._faults.back(server_id)
            self._execute(self._group.restore(server_id))

    async def _start_again(self, server_id: ServerId) -> None:
        for delay in backoff():
            await asyncio.sleep(delay)
            server = start_server(self._config, server_id, self._placement, self._index)
            try:
                await server.load()
                await server.measure()
            except ray.exceptions.RayError as error:
                self._lost[server_id] = self._faults.note(server_id, error)
            else:
                self._servers[server_id] = server
                return

    def _lose(self, server_id: ServerId) -> None:
        """A server died, and with it its tasks, whose ends nobody else reports."""
        self._books.metrics.lost(server_id)
        tasks = self._group.tasks_of(server_id)
        _, lost = self._whose([Ended(task, EndReason.LOST) for task in tasks])
        said = self._group.lose(server_id)
        self._send(said)
        self._books.hear(server_id, lost, crossed=False)
        self._books.say(said)

    @fatal_errors("the events of a server")
    def _on_events(self, events: list[Event]) -> None:
        """What one of a server's steps produced. What others wait for comes first, books last."""
        server_id, heard = self._whose(events)
        said = self._group.handle(events)
        self._send(said)
        if server_id is not None:
            crossed = self._servers[server_id].messages > 0
            self._books.hear(server_id, heard, crossed=crossed)
        self._books.say(said)

    def _execute(self, said: Sequence[RoutedCommand]) -> None:
        self._send(said)
        self._books.say(said)

    def _whose(self, events: list[Event]) -> tuple[ServerId | None, Heard]:
        """The server of tasks that are known, and their events with whose they are."""
        server_id, heard = None, []
        for event in events:
            entry = self._group.of_task(event.task)
            if entry is None:
                continue
            member, server_id = entry
            heard.append((self._in_flight[member.job.id], event))
            if not (isinstance(event, Output) and event.goes_on):
                self._servers[server_id].ended(event.task)
        return server_id, heard

    def _send(self, said: Sequence[RoutedCommand]) -> None:
        """Gives servers their work, and then clients their tokens."""
        for member, command in said:
            match command:
                case Start(task, mode):
                    sampling = self._in_flight[member.job.id].generation.sampling
                    if task.server.role is Role.DRAFTER:
                        sampling = sampling.for_drafters
                    self._outgoing.start(task, mode, sampling)
                case Cancel(task):
                    if (entry := self._group.of_task(task)) is not None:
                        self._outgoing.cancel(entry[1], member.job.id, task)
                case Release(servers):
                    for server_id in servers:
                        self._outgoing.release(server_id, member.job.id)
        sent = self._outgoing.send(self._servers)
        self._books.metrics.sent(sum(sent.values()))
        for request, messages in sent.items():
            self._in_flight[request].messages += messages
        for member, command in said:
            match command:
                case Emit():
                    self._in_flight[member.job.id].emit(command)
                case Fail(error, param):
                    self._in_flight[member.job.id].fail(error, param)
