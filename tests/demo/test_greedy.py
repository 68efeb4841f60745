"""The demo's loop detection, on which its measured figures rest."""

import pytest
import torch

from dsi_ray.demo.greedy import continue_greedily, loops, outputs, repeats, written
from dsi_ray.demo.models import new_model


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([], False),
        ([1, 2, 3], False),
        (list(range(100)), False),
        ([5, 6, 7, 7, 7], True),
        ([*range(50), 1, 2, 1, 2, 1, 2], True),
        ([*range(50), 1, 2, 1, 2], False),
        ([*range(40)] * 3, True),
        ([*range(40), *range(20)], False),
    ],
)
def test_loops(output: list[int], expected: bool) -> None:
    assert loops(output) is expected


def test_repeats_marks_tokens_that_end_a_copy() -> None:
    sequence = torch.tensor([[*range(10, 20), *range(10, 18), 3]])
    assert repeats(sequence)[0].nonzero().flatten().tolist() == [15, 16, 17]


def test_repeats_of_a_short_sequence_are_none() -> None:
    assert not repeats(torch.tensor([[1, 1, 1]])).any()


def test_written_ends_with_the_first_end_token() -> None:
    sequences = torch.tensor([[7, 0, 5, 0, 0], [7, 8, 5, 6, 7]])
    expected = [[False, False, True, True, False], [False, False, True, True, True]]
    assert written(sequences, 2).tolist() == expected
    assert list(outputs(sequences, 2)) == [[5], [5, 6, 7]]


def test_batches_are_continued_like_single_prompts() -> None:
    torch.manual_seed(0)
    model = new_model(2).eval()
    prompts = torch.randint(3, 2048, (3, 5))
    sequences = continue_greedily(model, prompts, 6)
    with torch.inference_mode():
        choices = model(sequences).logits.argmax(-1)
    own = written(sequences, 5)[:, 1:]
    assert torch.equal(choices[:, :-1][own], sequences[:, 1:][own])
