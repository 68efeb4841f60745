"""Tokens in, text out, piece by piece; ends at stop strings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from types import MappingProxyType
from typing import Protocol

_INCOMPLETE = "\ufffd"
"""What decoders write for bytes that are no whole character (yet)."""

_CONTEXT = 8
"""So many prompt tokens show whether the first piece begins with a space."""


_HALVES = 3
"""So many signs of incomplete bytes at the end may still become a character, and no more."""

_WINDOW = 8
"""More tokens that wait for the end of a character are cut to those that may be part of it."""


class TokenDecoder(Protocol):
    """The part of a tokenizer that turns ids into text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What some tokens added to the text.

    Attributes:
        text: New text that no stop string can take back.
        used: How many of the pushed tokens belong to the output; fewer than were pushed only
            where a stop string ended it.
        stopped: Whether a stop string was found. It is not part of the text.
        offsets: Where each of the used tokens begins, in characters from the first token's on. One
            that goes on with a character begins where the character does.
    """

    text: str
    used: int
    stopped: bool
    offsets: tuple[int, ...] = ()


class TextStream:
    """The text of one output.

    All the pieces together are what the tokens decode to at once, up to the first stop string,
    however the tokens were cut into blocks.
    """

    def __init__(
        self,
        decoder: TokenDecoder,
        prompt: Sequence[int] = (),
        stop: Sequence[str] = (),
        hidden: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Starts the text that follows ``prompt``.

        Args:
            decoder: Of its tokens.
            prompt: What comes before it.
            stop: What ends it.
            hidden: What tokens would read that the decoder leaves out; stop strings may name them.
        """
        self._text = _Detokenizer(decoder, prompt)
        self._stop = _StopFinder(stop)
        named = {token: text for token, text in hidden.items() if any(text in s for s in stop)}
        self._hidden = named
        self.length = 0
        """Characters of the tokens so far; a stop string and what is held back count too."""

    def push(self, tokens: Sequence[int]) -> Piece:
        """Takes the next tokens. After a stop string nothing more may be pushed."""
        text = ""
        offsets = []
        for used, token in enumerate(tokens, start=1):
            offsets.append(self.length)
            new, stopped = self._push(token)
            text += new
            if stopped:
                return Piece(text, used, True, tuple(offsets))
        return Piece(text, len(tokens), False, tuple(offsets))

    def _push(self, token: int) -> tuple[str, bool]:
        new = self._text.push(token)
        self.length += len(new)
        text, stopped = self._stop.push(new)
        if not stopped and token in self._hidden:
            more, stopped = self._stop.push(self._hidden[token], hidden=True)
            text += more
        return text, stopped

    def finish(self) -> Piece:
        """Returns what was held back; the last bytes may complete a stop string."""
        rest = self._text.flush()
        self.length += len(rest)
        text, stopped = self._stop.push(rest)
        return Piece(text if stopped else text + self._stop.flush(), 0, stopped)


class _Detokenizer:
    """Decodes tokens one after the other, each in the sight of a few before it.

    A tokenizers.DecodeStream works alike, but fails on invalid bytes that follow a valid
    character of a byte-fallback vocabulary, and cannot be flushed.
    """

    def __init__(self, decoder: TokenDecoder, prompt: Sequence[int]) -> None:
        self._decode = decoder.decode
        self._context: list[int] = []
        self._context_text = ""
        self._pending: list[int] = []
        self._last = ""
        """What the pending tokens add to the context."""
        self._sent = 0
        """How much of that is out."""
        self._set_context(prompt[-_CONTEXT:])

    def push(self, token: int) -> str:
        """Returns the text of the tokens so far that was not returned before."""
        self._pending.append(token)
        text = self._text()
        if text == self._last and not self._decode([token]):
            # A token without text, a special one: it does not part the bytes of a character. Nor
            # must it become the whole context: some decoders drop the space in front of what they
            # take for the first word.
            self._forget_silent()
            return ""
        self._last = text
        if not text.endswith(_INCOMPLETE):
            new = text[self._sent :]
            self._set_context(self._pending)
            return new
        halves = len(text) - len(text.rstrip(_INCOMPLETE))
        settled = max(len(text) - min(halves, _HALVES), self._sent)
        new, self._sent = text[self._sent : settled], settled
        return new if len(self._pending) <= _WINDOW else new + self._shorten()

    def flush(self) -> str:
        """Returns the rest, be its characters whole or not."""
        new = self._text()[self._sent :]
        self._set_context(self._pending)
        return new

    def _text(self) -> str:
        """What the pending tokens add to the context."""
        text = self._decode([*self._context, *self._pending])
        if text.startswith(self._context_text):
            return text[len(self._context_text) :]
        # The context reads otherwise because of what follows, and it is already out.
        return self._decode(self._pending)

    def _forget_silent(self) -> None:
        """Drops the last token, unless there is nothing but such tokens: then one of the first."""
        if self._context_text or self._last:
            self._pending.pop()
        elif len(self._pending) > _WINDOW:
            del self._pending[0]

    def _shorten(self) -> str:
        """Goes on with the last tokens alone; returns what goes out because of that."""
        tail = self._pending[-_HALVES - 1 :]
        text, rest = self._decode(tail), self._last[self._sent :]
        if text.endswith(rest):
            self._context, self._context_text = [], ""
            self._pending, self._last, self._sent = tail, text, len(text) - len(rest)
            return ""
        # Without the bytes that spoiled them they read otherwise, and so do those to come.
        self._set_context(tail)
        return rest

    def _set_context(self, tokens: Sequence[int]) -> None:
        self._context = list(tokens)
        self._context_text = self._decode(self._context)
        self._pending, self._last, self._sent = [], "", 0


class _StopFinder:
    """Passes text on up to the first stop string; holds back what may become one."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = stop
        self._held = ""
        self._shown: list[bool] = []
        """Which of its characters are text; the others are only compared."""

    def push(self, text: str, *, hidden: bool = False) -> tuple[str, bool]:
        """Returns the text that is safe to pass on and whether a stop string ended it."""
        self._held += text
        self._shown += [not hidden] * len(text)
        found = [at for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            return self._take(min(found)), True
        return self._take(len(self._held) - self._beginning_of_stop(self._held)), False

    def flush(self) -> str:
        """Returns what is held back."""
        return self._take(len(self._held))

    def _take(self, length: int) -> str:
        text = "".join(compress(self._held[:length], self._shown))
        self._held, self._shown = self._held[length:], self._shown[length:]
        return text

    def _beginning_of_stop(self, text: str) -> int:
        """Length of the longest end of ``text`` with which a stop string begins."""
        longest = max((len(stop) - 1 for stop in self._stop), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stop):
                return length
        return 0
