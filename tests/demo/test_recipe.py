"""The recipe of the demo pair: that each of its phases teaches something."""

from collections.abc import Iterator

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from dsi_ray.demo import TARGET_DIR
from dsi_ray.demo.corpus import read_files
from tests.demo import recipe
from tests.demo.recipe import Corpus, continue_greedily, conversations, new_model, repeats, written

SOURCE = '''class Box:
    def open(self):
        """Open the box.

        At once.
        """
        return self

    def close(self):
        return None
'''


def test_documented_functions_become_conversations() -> None:
    ((request, answer),) = conversations(SOURCE)
    assert request == "Open the box."
    assert answer.startswith("def open(self):\n    ")
    assert answer.endswith("return self\n")


def test_broken_source_has_no_conversations() -> None:
    assert list(conversations("def broken(:")) == []


def test_repeats_marks_tokens_that_end_a_copy() -> None:
    sequence = torch.tensor([[*range(10, 20), *range(10, 18), 3]])
    assert repeats(sequence)[0].nonzero().flatten().tolist() == [15, 16, 17]


def test_repeats_of_a_short_sequence_are_none() -> None:
    assert not repeats(torch.tensor([[1, 1, 1]])).any()


def test_written_ends_with_the_first_end_token() -> None:
    sequences = torch.tensor([[7, 0, 5, 0, 0], [7, 8, 5, 6, 7]])
    expected = [[False, False, True, True, False], [False, False, True, True, True]]
    assert written(sequences, 2).tolist() == expected


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "ROWS", 4)
        patch.setattr(recipe, "NEW_TOKENS", 8)
        yield


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    torch.manual_seed(0)
    return Corpus(read_files(held_out=True)[:8], AutoTokenizer.from_pretrained(TARGET_DIR))


@pytest.fixture(scope="module")
def target(corpus: Corpus) -> LlamaForCausalLM:
    """A small target after a few steps of the first two phases, which both lower their loss."""
    model = new_model(recipe.DRAFTER_LAYERS + 1)
    for phase in (recipe.pretrain, recipe.polish):
        losses = phase(model, corpus, 6)
        assert losses[-1] < losses[0]
    return model


def test_the_drafter_starts_as_the_exit_and_learns(
    corpus: Corpus, target: LlamaForCausalLM
) -> None:
    drafter = recipe.cut_drafter(target)
    rows = corpus.batch(1, 16)
    with torch.no_grad():
        _, early = recipe.logits_of(target, rows)
        full, _ = recipe.logits_of(drafter, rows)
    torch.testing.assert_close(full, early)
    losses = recipe.distil(target, drafter, corpus, 6)
    assert losses[-1] < losses[0]


def test_batches_are_continued_like_single_prompts(
    corpus: Corpus, target: LlamaForCausalLM
) -> None:
    rows = continue_greedily(target, corpus.prompts(3), 6)
    singly = [continue_greedily(target, row[None, : recipe.PROMPT_TOKENS], 6) for row in rows]
    assert torch.equal(torch.cat(singly), rows)
