"""Commit: where a text ends. One function for every decoder."""

from dataclasses import dataclass

from dsi_ray.core.messages import FinishReason


@dataclass(frozen=True, slots=True)
class StopCriteria:
    """When a request ends.

    Attributes:
        max_tokens: Most tokens to commit.
        stop_ids: Ids that end the text and are its last token: end of sequence and the caller's.
    """

    max_tokens: int
    stop_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")

    def finish(self, count: int, token: int) -> FinishReason | None:
        """Whether the ``count``-th committed token, ``token``, is the last, and why."""
        if token in self.stop_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if count >= self.max_tokens else None
