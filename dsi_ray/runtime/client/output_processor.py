"""From committed tokens to what the client gets: text, cut at stop strings."""

from collections.abc import Iterable
from dataclasses import replace

from dsi_ray.core.messages import FinishReason
from dsi_ray.models.text.text_stream import Piece, TextStream
from dsi_ray.runtime.request import Chunk, Completion, RequestStats, TokenChunk


class OutputProcessor:
    """The text of one request.

    Attributes:
        over: Whether the text is complete; what follows are only the request's figures.
    """

    def __init__(self, text: TextStream) -> None:
        self._text = text
        self._used = 0
        self.over = False

    def push(self, new: TokenChunk) -> list[Chunk]:
        """Takes committed tokens; returns the chunk that they make, if any."""
        if self.over:
            last = new.finish_reason is not None
            return [Chunk("", (), FinishReason.STOP, self._usage(new.stats))] if last else []
        piece = self._read(new)
        tokens = new.tokens[: piece.used] if piece.stopped else new.tokens
        logprobs, offsets = new.logprobs[: len(tokens)], piece.offsets[: len(tokens)]
        self._used += len(tokens)
        finish = FinishReason.STOP if piece.stopped else new.finish_reason
        self.over = finish is not None
        if new.finish_reason is None:
            # The reason to finish comes with the figures, in the last chunk.
            return [Chunk(piece.text, tokens, None, None, logprobs, offsets)]
        stats = self._usage(new.stats)
        return [Chunk(piece.text, tokens, finish, stats, logprobs, offsets)]

    def _read(self, new: TokenChunk) -> Piece:
        ends_with_stop_id = new.finish_reason is FinishReason.STOP
        piece = self._text.push(new.tokens[:-1] if ends_with_stop_id else new.tokens)
        if piece.stopped or new.finish_reason is None:
            return piece
        rest = self._text.finish()
        offsets = piece.offsets + (self._text.length,) * ends_with_stop_id
        return Piece(piece.text + rest.text, piece.used, rest.stopped, offsets)

    def _usage(self, stats: RequestStats | None) -> RequestStats | None:
        """Counts the tokens that the client got, not those past a stop string."""
        return None if stats is None else replace(stats, completion_tokens=self._used)


def complete(chunks: Iterable[Chunk]) -> Completion:
    """All chunks of a finished request as one."""
    *_, last = chunks = list(chunks)
    assert last.finish_reason is not None and last.stats is not None, "the last chunk ends it"
    return Completion(
        "".join(chunk.text for chunk in chunks),
        tuple(token for chunk in chunks for token in chunk.tokens),
        last.finish_reason,
        last.stats,
        tuple(entry for chunk in chunks for entry in chunk.logprobs),
    )
