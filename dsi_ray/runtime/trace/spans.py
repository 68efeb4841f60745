"""What a trace of a request consists of: spans on server lanes, and commits."""

import enum
from dataclasses import dataclass

from dsi_ray.config import Algorithm
from dsi_ray.core.messages import ServerId
from dsi_ray.runtime.request import RequestStats


class SpanKind(enum.StrEnum):
    """What a server was doing."""

    DRAFT = "draft"
    VERIFICATION = "verification"
    DECODE_STEP = "decode step"
    """The target's next token, without a draft to verify; the first one includes the prompt."""

    PREFILL = "prefill"


class SpanOutcome(enum.StrEnum):
    """What became of it."""

    ACCEPTED = "accepted"
    """All that was guessed, verified or computed is part of the text."""

    REJECTED = "rejected"
    """A draft was not what the target says; those before it count as accepted."""

    UNUSED = "unused"
    """It followed a path that did not come true, or went beyond the end of the text."""

    CANCELLED = "cancelled"
    """It was stopped before its end: cancelled, or replaced by other work."""

    FAILED = "failed"
    PENDING = "pending"
    """It is done, and the text has not got that far."""

    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of work on one server, of one report or of none.

    Attributes:
        server: Its lane. Spans of one lane do not overlap.
        kind: What it was.
        outcome: What became of it.
        begin: Seconds from the arrival of the request.
        end: Likewise.
        start: Position of the first token that it gave, or was to give.
        tokens: How many it gave.
        drafts: How many drafts it guessed or verified.
        accepted: How many of those are what the target says, from the first on.
        forwards: How many forwards it took; 0 if none ran to its end.
    """

    server: ServerId
    kind: SpanKind
    outcome: SpanOutcome
    begin: float
    end: float
    start: int
    tokens: int = 0
    drafts: int = 0
    accepted: int = 0
    forwards: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """Tokens that became part of the text together.

    Attributes:
        time: Seconds from the arrival of the request.
        tokens: How many.
        total: How many the text has with them.
    """

    time: float
    tokens: int
    total: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What each server did for one request, as far as it has got.

    Attributes:
        request: The request's id.
        algorithm: How it is decoded.
        prompt_tokens: Tokens of the prompt: the position of the first generated token.
        servers: The lanes, drafters first.
        spans: In the order of their ends on each lane.
        commits: In order.
        seconds: How far the trace goes.
        settled: What ended before that many seconds stays as it is.
        over: Whether nothing more will be committed.
        omitted: Spans and commits beyond the bound on what is kept.
        stats: The request's figures so far.
    """

    request: str
    algorithm: Algorithm
    prompt_tokens: int
    servers: tuple[ServerId, ...]
    spans: tuple[Span, ...]
    commits: tuple[Commit, ...]
    seconds: float
    settled: float
    over: bool
    omitted: int = 0
    stats: RequestStats | None = None
