"""The bytes behind a token: what it adds to the text, be it half a character.

Decoding a single token does not tell: half a character comes out as U+FFFD, and some decoders drop
the space in front of a word that stands alone.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE_MARK = "\u2581"


class TokenBytes:
    """Reads a tokenizer's pieces as its decoder does, without the decoder's view of the whole."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        decoder = tokenizer.backend_tokenizer.decoder
        # Its state is JSON: the only way in which it tells what it does.
        steps = list(_steps(None if decoder is None else json.loads(decoder.__getstate__())))
        kinds = {step["type"] for step in steps}
        self._special = set(tokenizer.all_special_ids)
        self._byte_level = "ByteLevel" in kinds
        self._byte_fallback = "ByteFallback" in kinds
        self._marks_spaces = "Metaspace" in kinds or any(
            step["type"] == "Replace" and _SPACE_MARK in step["pattern"].values() for step in steps
        )

    def __call__(self, token: int) -> bytes:
        """Returns the bytes of ``token``; none for an id that stands for nothing."""
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if piece is None:
            return b""
        if token in self._special:
            return str(piece).encode()
        if self._byte_level and (known := _byte_level_bytes(piece)) is not None:
            return known
        if self._byte_fallback and (byte := _BYTE.fullmatch(piece)):
            return bytes.fromhex(byte[1])
        if self._marks_spaces:
            return str(piece).replace(_SPACE_MARK, " ").encode()
        return str(self._tokenizer.decode([token], clean_up_tokenization_spaces=False)).encode()


def _steps(decoder: Any) -> Iterator[dict[str, Any]]:
    """The decoder's steps, whether it is a sequence of them, one alone, or none."""
    if decoder is None:
        return
    if decoder["type"] != "Sequence":
        yield decoder
    for step in decoder.get("decoders", ()):
        yield from _steps(step)


def _byte_level_bytes(piece: str) -> bytes | None:
    """The bytes of a piece in GPT-2's alphabet; None for one that was added as plain text."""
    alphabet = _alphabet()
    try:
        return bytes(alphabet[letter] for letter in piece)
    except KeyError:
        return None


@cache
def _alphabet() -> dict[str, int]:
    """GPT-2's letters for the 256 bytes: printable bytes are themselves, the others come after."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    shifted = {chr(256 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted
