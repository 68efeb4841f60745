"""A request in flight, as the coordinator knows it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dsi_ray.core.group.request_state import RequestState
from dsi_ray.core.messages import Emit, FinishReason
from dsi_ray.runtime.errors import EngineError, RequestFailed
from dsi_ray.runtime.request import Generation, RequestStats, TokenChunk, histogram
from dsi_ray.runtime.trace.record import RequestTrace

Deliver = Callable[[TokenChunk | EngineError], None]
"""Takes what a request's client gets: chunks, the last with a reason to finish, or an error."""


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A request in flight, or one whose last tasks are still ending.

    Attributes:
        generation: As it came.
        member: Its place in the group.
        trace: What happened.
        deliver: To its client.
        arrived: On the clock of :func:`time.perf_counter`, like ``first`` and ``last``.
        first: When the first token was committed; 0 before.
        last: When the last one was.
        messages: What crossed a process for it; of what was for several requests, its share.
        ending: How it ended, or would if its client went away now.
    """

    generation: Generation
    member: RequestState
    trace: RequestTrace
    deliver: Deliver
    arrived: float
    first: float = 0.0
    last: float = 0.0
    messages: float = 0.0
    ending: Literal["finished", "abandoned", "failed"] = "abandoned"

    @property
    def elapsed(self) -> float:
        """Seconds since its arrival."""
        return time.perf_counter() - self.arrived

    def emit(self, emit: Emit) -> None:
        """Hands committed tokens to the client."""
        self.last = time.perf_counter()
        self.first = self.first or self.last
        stats = None
        if emit.finish is not None:
            self.ending, stats = "finished", self.stats()
        self.deliver(TokenChunk(emit.tokens, emit.finish, stats, emit.logprobs))

    def stop(self) -> None:
        """The text is complete: a last chunk without tokens."""
        self.ending = "finished"
        self.deliver(TokenChunk((), FinishReason.STOP, self.stats()))

    def fail(self, error: str, param: str | None = None) -> None:
        """Nothing more will come; ``param`` is the field of the request that is to blame."""
        self.ending = "failed"
        self.deliver(EngineError(error) if param is None else RequestFailed(error, param))

    def note_stats(self) -> None:
        """Puts the figures into the trace; before the first commit there are none."""
        if self.first:
            self.trace.stats = self.stats()

    def stats(self) -> RequestStats:
        """The figures so far."""
        decoder = self.member.decoder
        prompt_tokens = len(self.generation.prompt)
        completion_tokens = len(decoder.tree.tokens) - prompt_tokens
        later = max(1, completion_tokens - 1)
        return RequestStats(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            seconds=self.last - self.arrived,
            ttft_ms=(self.first - self.arrived) * 1e3,
            tpot_ms=(self.last - self.first) / later * 1e3,
            drafted_tokens=decoder.counts.drafted_tokens,
            accepted_tokens=decoder.tree.accepted,
            rejected_tokens=decoder.tree.rejected,
            target_forwards=decoder.counts.target_forwards,
            drafter_forwards=decoder.counts.drafter_forwards,
            cancelled_tasks=decoder.counts.cancelled_tasks,
            messages=self.messages,
            seed=self.generation.sampling.seed_in_use,
            acceptance_histogram=histogram(decoder.tree.runs),
        )
