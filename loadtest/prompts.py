"""What requests ask: shipped texts, files, or words drawn at random."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field, PositiveInt, TypeAdapter, ValidationError

from loadtest.errors import LoadTestError
from loadtest.load import Model

T = TypeVar("T")

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


class _Turn(BaseModel):
    speaker: str = Field(alias="from")
    value: str


class _Conversation(BaseModel):
    conversations: list[_Turn]


_TEXTS = TypeAdapter(list[str])
_CONVERSATIONS = TypeAdapter(list[_Conversation])

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
            texts = _shuffled([text for text in _first_turns(path) if len(text) <= limit], rng)
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
    texts = _read(path, _TEXTS) if path.suffix == ".json" else _read_text(path).splitlines()
    return [text for text in texts if text.strip()]


def _first_turns(path: Path) -> list[str]:
    firsts = (next(iter(each.conversations), None) for each in _read(path, _CONVERSATIONS))
    return [
        turn.value
        for turn in firsts
        if turn is not None and turn.speaker in ("human", "user") and turn.value.strip()
    ]


def _read(path: Path, kind: TypeAdapter[T]) -> T:
    try:
        return kind.validate_json(_read_text(path))
    except ValidationError as error:
        raise LoadTestError(f"prompts: {path} is not what it should be: {error}") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadTestError(f"prompts: cannot read {path}: {error}") from error


_VOCABULARY = sorted(set(" ".join(_read_texts(_FOLDER / "questions.json")).split()))
