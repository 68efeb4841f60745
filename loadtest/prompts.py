"""What requests ask: shipped texts, files, or words drawn at random."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from loadtest.errors import LoadTestError
from loadtest.load import Model

_FOLDER = Path(__file__).parent / "texts"


class _Prompts(Model):
    """What all kinds have in common.

    Attributes:
        shared_prefix_words: Words put before every prompt, for servers that cache prefixes.
        shared_prefixes: Number of different such prefixes; each request draws one.
    """

    shared_prefix_words: int = Field(0, ge=0)
    shared_prefixes: PositiveInt = 1


class Shipped(_Prompts):
    """Texts that come with the package: beginnings of Python code, or questions."""

    kind: Literal["shipped"]
    name: Literal["code", "questions"] = "questions"


class File(_Prompts):
    """A JSON list of strings, or text with a prompt a line."""

    kind: Literal["file"]
    path: Path


class ShareGpt(_Prompts):
    """The first human turn of each conversation of a ShareGPT-style JSON file.

    Attributes:
        max_chars: Longer ones are left out.
    """

    kind: Literal["sharegpt"]
    path: Path
    max_chars: PositiveInt = 4000


class Words(_Prompts):
    """Random English words: synthetic prompts of a chosen length that any tokenizer can read.

    Attributes:
        words: Of each prompt. A token is about three quarters of a word; the report says how many
            tokens the server counted.
    """

    kind: Literal["words"]
    words: PositiveInt


Prompts = Shipped | File | ShareGpt | Words


def draw(prompts: Prompts, rng: np.random.Generator) -> Iterator[str]:
    """Yields prompts without end: texts in a random order, then again in another.

    Raises:
        LoadTestError: A file cannot be read or holds no prompts.
    """
    match prompts:
        case Words(words=length):
            texts = _endless(lambda: _sentence(rng, length))
        case Shipped(name=name):
            texts = _shuffled(_read_texts(_FOLDER / f"{name}.json"), rng)
        case File(path=path):
            texts = _shuffled(_read_texts(path), rng)
        case ShareGpt(path=path, max_chars=limit):
            first = _first_turns(path)
            texts = _shuffled([text for text in first if len(text) <= limit], rng)
    if not prompts.shared_prefix_words:
        return texts
    prefixes = [_sentence(rng, prompts.shared_prefix_words) for _ in range(prompts.shared_prefixes)]
    return (f"{prefixes[rng.integers(len(prefixes))]}\n\n{text}" for text in texts)


def _endless(make: Callable[[], str]) -> Iterator[str]:
    while True:
        yield make()


def _sentence(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(_VOCABULARY, words))


def _shuffled(texts: Sequence[str], rng: np.random.Generator) -> Iterator[str]:
    if not texts:
        raise LoadTestError("prompts: the file holds none")
    return chain.from_iterable(
        (texts[index] for index in rng.permutation(len(texts))) for _ in iter(int, 1)
    )


def _read_texts(path: Path) -> list[str]:
    text = _read(path)
    texts = json.loads(text) if path.suffix == ".json" else text.splitlines()
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
        raise LoadTestError(f"prompts: {path} is not a JSON list of strings")
    return [item for item in texts if item.strip()]


def _first_turns(path: Path) -> Iterator[str]:
    for conversation in json.loads(_read(path)):
        for turn in conversation.get("conversations", [])[:1]:
            if turn.get("from") in ("human", "user") and turn.get("value", "").strip():
                yield turn["value"]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadTestError(f"prompts: cannot read {path}: {error}") from error


_VOCABULARY = sorted(set(" ".join(_read_texts(_FOLDER / "questions.json")).split()))
