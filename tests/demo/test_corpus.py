"""The demo's training text."""

from random import Random
from typing import Any

import pytest
import torch

from dsi_ray.demo.corpus import (
    DOCUMENT_CHARS,
    conversations,
    is_held_out,
    split_documents,
    stdlib_files,
)
from dsi_ray.demo.stream import TokenStream

SOURCE = '''class Box:
    def open(self):
        """Open the box.

        At once.
        """
        return self

    def close(self):
        return None
'''


def test_some_files_are_held_out_and_the_rule_is_stable() -> None:
    files = stdlib_files()
    held_out = [path for path in files if is_held_out(path)]
    assert 0 < len(held_out) < len(files) / 10
    assert held_out == [path for path in files if is_held_out(path)]


def test_documents_are_cut_between_statements_and_lose_nothing() -> None:
    text = "\n\n".join(f"def function_{number}():\n    return {number}\n" for number in range(200))
    pieces = list(split_documents(text))
    assert len(pieces) > 1
    assert all(piece.startswith("def ") for piece in pieces)
    assert all(len(piece) < DOCUMENT_CHARS + 100 for piece in pieces)
    assert "".join(pieces).split() == text.split()


def test_documented_functions_become_conversations() -> None:
    ((request, answer),) = conversations(SOURCE)
    assert request == "Open the box."
    assert answer.startswith("def open(self):\n    ")
    assert answer.endswith("return self\n")


def test_broken_source_has_no_conversations() -> None:
    assert list(conversations("def broken(:")) == []


@pytest.fixture
def documents() -> list[list[int]]:
    random = Random(0)
    return [[number] * random.randint(1, 9) for number in range(3, 40)]


def test_the_stream_is_seeded_and_goes_through_all_documents(documents: Any) -> None:
    batch = TokenStream(documents, seed=1).batch(1, sum(map(len, documents)))
    assert sorted(batch.flatten().tolist()) == sorted(token for doc in documents for token in doc)
    again = TokenStream(documents, seed=1).batch(1, batch.numel())
    assert torch.equal(batch, again)


def test_prompts_are_the_starts_of_longer_documents(documents: Any) -> None:
    prompts = TokenStream(documents, seed=1).prompts(100, 4)
    assert prompts.shape == (100, 4)
    assert all(len(documents[row[0] - 3]) > 4 for row in prompts.tolist())
