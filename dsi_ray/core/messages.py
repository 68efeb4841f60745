"""Events and commands: what passes between a decoder and the servers that run its tasks.

A *position* is an index into the whole token sequence of a request, prompt included. The
token *at* position ``i`` is the one that follows the ``i`` tokens before it.
"""

import enum
from dataclasses import dataclass

from dsi_ray.core.path import Path


@dataclass(frozen=True, slots=True, order=True)
class ServerId:
    """A model server: the ``index``-th of its role.

    The index of a drafter is its rank: of two drafters on one path the smaller survives.
    """

    role: "Role"
    index: int

    def __hash__(self) -> int:
        # Every event looks servers up; the hash of an enum's member takes ten times as long.
        return 2 * self.index + (self.role is Role.TARGET)

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class Role(enum.StrEnum):
    """What a model server is used for. Both roles run the same code."""

    TARGET = "target"
    DRAFTER = "drafter"


class Mode(enum.StrEnum):
    """How a new task meets what its server already does for the request."""

    REPLACE = "replace"
    """The running and the queued task end; the running forward stops at its next layer."""

    QUEUE = "queue"
    """The task waits for the running one; a task that was queued before ends."""


class EndReason(enum.StrEnum):
    """Why a task ended."""

    DONE = "done"
    REPLACED = "replaced"
    DROPPED = "dropped"
    """It was queued or arrived, and the server's own tokens contradict its path."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    """The model cannot compute it: no other server could."""

    LOST = "lost"
    """Its server died: another can run it."""


@dataclass(frozen=True, slots=True)
class Task:
    """One stretch of work on one server: ``extend(path, first unknown position, draft)``.

    The server computes its model's own tokens at positions ``start .. len(tokens)``, up to and
    including the first that differs from ``tokens``.

    Attributes:
        id: Unique within the coordinator.
        request: The request that it belongs to.
        server: Where it runs.
        tokens: Prompt, committed tokens and draft: all that the model is conditioned on. Whole,
            so that any server can run any task at any time.
        start: The first unknown position. ``len(tokens) + 1`` asks for no token: a prefill.
        limit: The model goes on alone, a token a forward, while the next position is below
            ``limit``; 0 means never. A target goes on after a decode step or a mismatch, a
            drafter after every token.
        stops: Ids after which the model does not go on alone.
        report: A server that goes on alone reports once it holds this many new tokens.
        proposals: For a verification by rejection sampling: what a drafter drew at each position
            from ``start`` on, empty where it drew nothing. Else none at all.
    """

    id: int
    request: str
    server: ServerId
    tokens: Path
    start: int
    limit: int = 0
    stops: frozenset[int] = frozenset()
    report: int = 1
    proposals: tuple[bytes, ...] = ()

    @property
    def is_prefill(self) -> bool:
        """Whether the task asks for no token and only fills the server's KV cache."""
        return self.start > len(self.tokens)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log probabilities at one position, raw: as the model has them, before any parameter.

    Attributes:
        logprob: Of the token that was chosen.
        top: The likeliest ids and theirs, best first; the chosen token need not be among them.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """A server's own tokens: a *verdict* from a target, a *draft* from a drafter.

    It says: after the task's own path up to ``start``, the model's tokens at positions
    ``start .. start + len(tokens) - 1`` are these. The outputs of one task are contiguous; the
    first starts at or before ``len(task.tokens)``, so that the path is always known.

    Attributes:
        task: The task's id.
        start: Position of the first token.
        tokens: The tokens, each conditioned on those before it.
        goes_on: Whether the task is still running. ``False`` is the end of the task.
        forwards: How many forwards these tokens took.
        seconds: How long those forwards took; 0 where nobody measures.
        logprobs: Of each token, from a target whose request asks for them; else empty.
        proposals: Of each token, from a drafter whose drafts are verified by rejection sampling:
            the token and the distribution that it was drawn from, as models/ has them. Else empty.
    """

    task: int
    start: int
    tokens: tuple[int, ...]
    goes_on: bool
    forwards: int = 1
    seconds: float = 0.0
    logprobs: tuple[TokenLogprobs, ...] = ()
    proposals: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A task ended without (further) output.

    Attributes:
        task: The task's id.
        reason: Why.
        error: What failed.
        param: The field of the request that is to blame, if one is.
    """

    task: int
    reason: EndReason
    error: str | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Command: run ``task`` on its server."""

    task: Task
    mode: Mode


@dataclass(frozen=True, slots=True)
class Cancel:
    """Command: nobody needs this task any more."""

    task: int


class FinishReason(enum.StrEnum):
    """Why a request ended, as the OpenAI API names it."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Emit:
    """Command: hand committed tokens to the client; ``finish`` is set with the last ones.

    ``logprobs`` has one entry for each token, where the request asks for them.
    """

    tokens: tuple[int, ...]
    finish: FinishReason | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """Command: the request cannot go on; tell the client. ``param`` as in :class:`Ended`."""

    error: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Command, the last of a request: its tasks have ended, and these servers may forget it."""

    servers: tuple[ServerId, ...]


Event = Output | Ended
Command = Start | Cancel | Emit | Fail | Release
