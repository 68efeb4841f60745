"""Log probabilities in OpenAI's two shapes."""

import codecs
from collections.abc import Sequence

from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.models.tokenizer import Tokenizer
from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.schema.chat import ChatLogprob, ChatLogprobs, TokenLogprob
from dsi_ray.serving.schema.completions import CompletionLogprobs

_FLOOR = -9999.0
"""JSON has no infinity; vLLM's number for it."""


class TextOffsets:
    """Where tokens begin in the text of one choice.

    A token that goes on with a character begun by another one begins where the character does.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._length = 0

    def next(self, token: int) -> int:
        """Returns where ``token`` begins, in characters."""
        offset = self._length
        self._length += len(self._decoder.decode(self._tokenizer.token_bytes(token)))
        return offset


def completion_logprobs(
    tokenizer: Tokenizer, chunk: Chunk, offsets: TextOffsets
) -> CompletionLogprobs | None:
    """Returns those of a chunk's tokens; None where the request did not ask for any."""
    if not chunk.logprobs:
        return None
    entries = list(zip(chunk.tokens, chunk.logprobs, strict=True))
    return CompletionLogprobs(
        tokens=[_name(tokenizer, token) for token, _ in entries],
        token_logprobs=[_finite(of.logprob) for _, of in entries],
        top_logprobs=[
            {_name(tokenizer, other): _finite(logprob) for other, logprob in _all(token, of)}
            for token, of in entries
        ],
        text_offset=[offsets.next(token) for token, _ in entries],
    )


def chat_logprobs(tokenizer: Tokenizer, chunk: Chunk) -> ChatLogprobs | None:
    """Returns those of a chunk's tokens; None where the request did not ask for any."""
    if not chunk.logprobs:
        return None
    return ChatLogprobs(
        content=[
            ChatLogprob(
                **_entry(tokenizer, token, of.logprob).model_dump(),
                top_logprobs=[_entry(tokenizer, other, logprob) for other, logprob in of.top],
            )
            for token, of in zip(chunk.tokens, chunk.logprobs, strict=True)
        ]
    )


def _all(token: int, of: TokenLogprobs) -> Sequence[tuple[int, float]]:
    """The likeliest tokens and the chosen one."""
    if any(other == token for other, _ in of.top):
        return of.top
    return (*of.top, (token, of.logprob))


def _entry(tokenizer: Tokenizer, token: int, logprob: float) -> TokenLogprob:
    raw = tokenizer.token_bytes(token)
    return TokenLogprob(
        token=_text(raw) or _escaped(raw), logprob=_finite(logprob), bytes=list(raw)
    )


def _name(tokenizer: Tokenizer, token: int) -> str:
    """A token as text that no other token has, since it is the key of a mapping."""
    raw = tokenizer.token_bytes(token)
    return _text(raw) or f"bytes:{_escaped(raw)}"


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _escaped(raw: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in raw)


def _finite(logprob: float) -> float:
    return max(logprob, _FLOOR)
