"""Log probabilities in OpenAI's two shapes."""

from collections.abc import Sequence

from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.models.text.tokenizer import Tokenizer
from dsi_ray.runtime.request import Chunk
from dsi_ray.serving.schema.chat import ChatLogprob, ChatLogprobs, TokenLogprob
from dsi_ray.serving.schema.completions import CompletionLogprobs

_FLOOR = -9999.0
"""JSON has no infinity; vLLM's number for it."""


def completion_logprobs(tokenizer: Tokenizer, chunk: Chunk) -> CompletionLogprobs | None:
    """Returns those of a chunk's tokens; None where the request did not ask for any."""
    if not chunk.logprobs:
        return None
    entries = list(zip(chunk.tokens, chunk.logprobs, strict=True))
    return CompletionLogprobs(
        tokens=[_name(tokenizer, token) for token, _ in entries],
        token_logprobs=[_finite(of.logprob) for _, of in entries],
        top_logprobs=[_by_name(tokenizer, _all(token, of)) for token, of in entries],
        text_offset=list(chunk.offsets),
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


def _by_name(tokenizer: Tokenizer, entries: Sequence[tuple[int, float]]) -> dict[str, float]:
    """Of tokens that read alike, such as a letter and the byte piece for it, the likeliest."""
    named: dict[str, float] = {}
    for token, logprob in entries:
        name = _name(tokenizer, token)
        named[name] = max(named.get(name, _FLOOR), logprob)
    return named


def _name(tokenizer: Tokenizer, token: int) -> str:
    """A token as text, so that half characters are not all alike."""
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
