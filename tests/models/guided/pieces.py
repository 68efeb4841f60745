"""A vocabulary so small that all its texts can be listed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from dsi_ray.models.guided.compiler import GuideCompiler
from dsi_ray.models.guided.walker import Walker
from dsi_ray.params import Guide

END, SPECIAL = 0, 1
PIECES = (b"</s>", b"<x>", b"a", b"b", b"c", b"ab", b"bc", b"abc", b"ca", b"", b'"')
ENDS = frozenset({END})


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a compiler reads of a tokenizer."""

    special_ids: frozenset[int] = frozenset({END, SPECIAL})

    def token_bytes(self, token: int) -> bytes:
        return PIECES[token]


COMPILER = GuideCompiler(Pieces(), len(PIECES))  # type: ignore[arg-type]


def walker(guide: Guide, end_ids: frozenset[int] = ENDS) -> Walker:
    """A walker at its beginning."""
    return Walker(COMPILER.matcher(guide), end_ids, len(PIECES))


def text(tokens: Sequence[int]) -> str:
    """What tokens write."""
    return b"".join(PIECES[token] for token in tokens).decode()


def language(guide: Guide, longest: int) -> frozenset[str]:
    """All texts of a guide over a, b and c, by trying every one."""
    if guide.kind == "choice":
        return frozenset(guide.choices)
    tried = ("".join(letters) for n in range(longest + 1) for letters in product("abc", repeat=n))
    return frozenset(word for word in tried if re.fullmatch(guide.text, word))


def expected(words: frozenset[str], tokens: Sequence[int]) -> set[int]:
    """What may follow: what begins a word of the language, and the end behind a whole one."""
    written = text(tokens)
    begins = {word[:n] for word in words for n in range(len(word) + 1)}
    pieces = range(SPECIAL + 1, len(PIECES))
    ids = {i for i in pieces if PIECES[i] and written + PIECES[i].decode() in begins}
    return ids | ({END} if written in words else set())
