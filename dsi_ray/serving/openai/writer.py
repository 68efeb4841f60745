"""What an endpoint has to say about how its answers are worded."""

import time
import uuid
from collections.abc import Sequence
from typing import Protocol, TypedDict, TypeVar

from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.schema.answers import AnyAnswer, AnyChoice, RequestMetrics, Usage

C = TypeVar("C", bound=AnyChoice)


class ResponseHead(TypedDict):
    """What is the same in all chunks of an answer."""

    id: str
    created: int
    model: str


def head(prefix: str, model: str) -> ResponseHead:
    """Returns the head of a new answer."""
    return ResponseHead(id=f"{prefix}-{uuid.uuid4().hex}", created=int(time.time()), model=model)


def seed_of(chunk: Chunk) -> int | None:
    """Returns the seed that a finished choice was drawn with."""
    return None if chunk.stats is None else chunk.stats.seed


class Writer(Protocol[C]):
    """Words the answer to one request.

    A streamed choice is an opening, news and an ending; a whole one is all of them together.
    """

    def opening(self, index: int) -> C | None:
        """What comes before a choice's first text, if anything."""

    def news(self, index: int, chunk: Chunk) -> C:
        """New text."""

    def ending(self, index: int, chunk: Chunk) -> C:
        """Why a choice ended; text never comes with it, as clients know it."""

    def part(
        self, choice: C | None, usage: Usage | None, metrics: RequestMetrics | None
    ) -> AnyAnswer:
        """A chunk of a streamed answer; the last one, which counts the tokens, has no choice."""

    def whole(
        self, chunks: Sequence[Chunk], usage: Usage, metrics: RequestMetrics | None
    ) -> AnyAnswer:
        """The whole answer; each choice is one chunk."""
