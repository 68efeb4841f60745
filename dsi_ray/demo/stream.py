"""Batches of token ids, cut from an endless stream of shuffled documents."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from dsi_ray.demo.corpus import conversations, split_documents
from dsi_ray.demo.tokenizer import ASSISTANT, END, USER


def tokenize_documents(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Return the ids of every document and conversation in `texts`, each with its end token."""
    documents = [piece + END for text in texts for piece in split_documents(text)]
    documents += [
        f"{USER}{request}{ASSISTANT}{answer}{END}"
        for text in texts
        for request, answer in conversations(text)
    ]
    encoded = tokenizer(documents, add_special_tokens=False, verbose=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


class TokenStream:
    """An endless, seeded stream over documents; a new order for each time through them."""

    def __init__(self, documents: list[list[int]], seed: int) -> None:
        self._documents = documents
        self._random = Random(seed)
        self._buffer: list[int] = []
        self._order: Iterator[list[int]] = iter(())

    def batch(self, rows: int, length: int) -> Tensor:
        """Return the next `rows * length` tokens of the stream."""
        size = rows * length
        while len(self._buffer) < size:
            self._buffer += self._next_document()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return torch.tensor(taken).view(rows, length)

    def prompts(self, rows: int, length: int) -> Tensor:
        """Return the first `length` tokens of the next `rows` documents that have more."""
        found: list[list[int]] = []
        while len(found) < rows:
            document = self._next_document()
            if len(document) > length:
                found.append(document[:length])
        return torch.tensor(found)

    def _next_document(self) -> list[int]:
        document = next(self._order, None)
        if document is None:
            order = list(self._documents)
            self._random.shuffle(order)
            self._order = iter(order)
            document = next(self._order)
        return document
