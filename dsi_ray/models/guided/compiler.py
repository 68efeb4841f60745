"""From a guide to a matcher of tokens, by llguidance."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import numpy
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from dsi_ray.models.guided.words import DEAD_END, limit, refusal
from dsi_ray.models.text.tokenizer import Tokenizer
from dsi_ray.params import Guide

_HEADER = '%llguidance {"no_forcing": true}\nstart: '
"""Every token that keeps the text valid is allowed, not only how a tokenizer would write it: so
what is allowed depends on the text alone."""

_JSON: dict[str, Any] = {
    # Free white space would let a text go on without end.
    "whitespace_flexible": False,
    "whitespace_pattern": None,
    "item_separator": ",",
    "key_separator": ":",
    # What a schema says is kept or refused, whatever options the schema itself carries.
    "lenient": False,
    "coerce_one_of": False,
}


_TEXTS, _TOKENS = 4, 64
"""By which a guide is tried."""

_REMEMBERED = 128
"""Guides that have been tried."""


class GuideError(ValueError):
    """A guide is invalid, or more than can be enforced. The message is one line."""


class GuideCompiler:
    """Compiles guides for one vocabulary."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """Reads the bytes of every token, a second for a large vocabulary."""
        tokens = [tokenizer.token_bytes(token) for token in range(vocab_size)]
        special = sorted(token for token in tokenizer.special_ids if token < vocab_size)
        # The library wants an end of its own. What ends a text here is the request's business.
        end = self._end = vocab_size
        vocabulary = _Vocabulary(end, [*tokens, b""], [*special, end])
        self._tokenizer = LLTokenizer(TokenizerWrapper(vocabulary))
        # Clients send the same schema again and again.
        self.check: Callable[[Guide], None] = lru_cache(_REMEMBERED)(self._check)

    def matcher(self, guide: Guide) -> LLMatcher:
        """Returns a new matcher at the beginning of a text.

        Copies of one would be cheaper than the millisecond that it takes, but they share what the
        library learns on the way, limits that one of them exceeds included.

        Raises:
            GuideError: The guide cannot be enforced.
        """
        try:
            matcher = LLMatcher(self._tokenizer, _HEADER + _grammar(guide), log_level=0)
        except ValueError as error:
            raise GuideError(refusal(str(error))) from error
        if matcher.is_error():
            raise GuideError(refusal(matcher.get_error()))
        # Some guides show only here that they are too much.
        matcher.compute_bitmask()
        _raise_if_beyond(matcher)
        return matcher

    def _check(self, guide: Guide) -> None:
        """Begins some texts of the given form: most of what is too much shows soon.

        Raises:
            GuideError: The guide cannot be enforced.
        """
        chance = Random(0)
        for _ in range(_TEXTS):
            if not self._ends_soon(self.matcher(guide), chance):
                return

    def _ends_soon(self, matcher: LLMatcher, chance: Random) -> bool:
        """Follows random tokens; returns whether the text was over before it could show much."""
        for _ in range(_TOKENS):
            bits = numpy.frombuffer(matcher.compute_bitmask(), numpy.uint8)
            if matcher.get_error().startswith(DEAD_END):
                # The vocabulary lacks a byte: there the text ends.
                return True
            _raise_if_beyond(matcher)
            (allowed,) = numpy.unpackbits(bits, count=self._end, bitorder="little").nonzero()
            if not allowed.size:
                return True
            matcher.consume_token(int(chance.choice(allowed)))
            _raise_if_beyond(matcher)
        return False


def _raise_if_beyond(matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise GuideError(limit(matcher.get_error()))


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """A tokenizer as llguidance wants it."""

    eos_token_id: int
    tokens: list[bytes]
    special_token_ids: list[int]
    bos_token_id: None = None

    def __call__(self, text: bytes) -> list[int]:
        """Never used: it would only be needed for forcing tokens."""
        return []


def _grammar(guide: Guide) -> str:
    match guide.kind:
        case "json_schema":
            return f"%json {_with_options(guide.text)}"
        case "regex":
            return _as_rule(guide.text)
        case "choice":
            return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in guide.choices)


def _as_rule(regex: str) -> str:
    """The regex between slashes, those in it escaped."""
    (grammar,) = json.loads(LLMatcher.grammar_from_regex(regex))["grammars"]
    return str(grammar["lark_grammar"]).removeprefix("start:")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _with_options(text: str) -> str:
    """The schema with the options that this package has decided on."""
    try:
        schema = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("the schema is nested too deeply") from error
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError("a schema is an object")
    return json.dumps(schema | {"x-guidance": _JSON})
