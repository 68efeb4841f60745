"""Continuous batching with SI and without, in virtual time: how servers decode many requests today.

A device takes turns: all its requests draft, then one forward verifies the drafts of all of them,
together with a chunk of the prompts of those that came. Without drafts that is plain decoding.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from dsi_ray.config import Simulation
from dsi_ray.core.planning.expected import Latencies
from dsi_ray.experiments.virtual.node import SimulatedNode, Visit, forward_seconds
from dsi_ray.models.simulated import is_accepted

_MOST_LOOKAHEAD = 16


@dataclass(slots=True)
class _Guest:
    """A request on a device: what it still needs."""

    visit: Visit
    prompt: int
    done: int = 0

    @property
    def left(self) -> int:
        return self.visit.tokens - self.done

    def accepted(self, drafter: Simulation, drafts: int) -> int:
        """How many of its next drafts are right, up to the first wrong one."""
        first = self.visit.prompt + self.done
        for index in range(drafts):
            if not is_accepted(drafter, first + index, self.visit.trace):
                return index
        return drafts


@dataclass(slots=True)
class _Device:
    guests: list[_Guest] = field(default_factory=list)
    busy: bool = False


def serve_batched(
    node: SimulatedNode, visits: Sequence[Visit], *, drafts: bool
) -> dict[int, float]:
    """When each request of ``visits``, by its trace, has all its tokens.

    A request goes to the device with the fewest. With ``drafts`` every turn has the lookahead that
    commits most tokens a second, which may be none.
    """
    devices = [_Device() for _ in range(node.devices)]
    waiting: deque[Visit] = deque()
    ended: dict[int, float] = {}
    # Arrivals come before turns that end at the same time.
    events: list[tuple[float, int, int]] = [(visit.time, -1, i) for i, visit in enumerate(visits)]
    heapq.heapify(events)
    turns: dict[int, _Turn] = {}
    while events:
        now, kind, index = heapq.heappop(events)
        if kind < 0:
            waiting.append(visits[index])
        else:
            device = devices[index]
            device.busy = False
            for guest in turns.pop(index).end(node):
                ended[guest.visit.trace] = now
                device.guests.remove(guest)
        while waiting and min(len(device.guests) for device in devices) < node.slots:
            device = min(devices, key=lambda device: len(device.guests))
            visit = waiting.popleft()
            device.guests.append(_Guest(visit, visit.prompt))
        for index, device in enumerate(devices):
            if device.guests and not device.busy:
                device.busy = True
                turn = turns[index] = _Turn.begin(node, device.guests, drafts=drafts)
                heapq.heappush(events, (now + turn.seconds, 0, index))
    return ended


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a device does next: whose drafts it verifies, whose prompts it goes on with."""

    decoding: list[_Guest]
    prefilling: list[tuple[_Guest, int]]
    lookahead: int
    seconds: float

    @classmethod
    def begin(cls, node: SimulatedNode, guests: Sequence[_Guest], *, drafts: bool) -> "_Turn":
        decoding = [guest for guest in guests if not guest.prompt]
        prefilling, room = [], node.chunk
        for guest in guests:
            tokens = min(guest.prompt, room)
            if tokens:
                prefilling.append((guest, tokens))
                room -= tokens
        prompts = node.chunk - room
        choices = range(_MOST_LOOKAHEAD + 1 if drafts and decoding else 1)

        def seconds(lookahead: int) -> float:
            verified = len(decoding) * (1 + lookahead)
            drafting = lookahead * forward_seconds(node.drafter, len(decoding))
            return drafting + forward_seconds(node.target, verified + prompts)

        acceptance = node.drafter.acceptance_rate
        best = min(choices, key=lambda k: seconds(k) / Latencies(1, 1, acceptance).tokens(k))
        return cls(decoding, prefilling, best, seconds(best))

    def end(self, node: SimulatedNode) -> list[_Guest]:
        """Gives everybody the tokens of the turn; returns those who have all."""
        for guest in self.decoding:
            drafts = min(self.lookahead, guest.left - 1)
            guest.done += guest.accepted(node.drafter, drafts) + 1
        for guest, tokens in self.prefilling:
            guest.prompt -= tokens
            guest.done += not guest.prompt
        return [
            guest
            for guest in (*self.decoding, *(guest for guest, _ in self.prefilling))
            if not guest.left
        ]
