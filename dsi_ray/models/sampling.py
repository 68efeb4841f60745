"""From logits to the token that the model chooses."""

from torch import Tensor


def greedy(logits: Tensor) -> list[int]:
    """Returns the id of the largest logit of each row; the smallest id wins a tie.

    Args:
        logits: Of shape (positions, vocabulary), on any device.
    """
    tokens: list[int] = logits.argmax(-1).tolist()
    return tokens
