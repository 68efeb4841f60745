"""Whether counts fit a law: Pearson's chi-square, with seeds that never change."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping


def misfit(drawn: Iterable[Hashable], law: Mapping[Hashable, float]) -> float:
    """Returns by how many standard deviations chi-square exceeds what the law predicts.

    Under the law it is about normal: beyond 4 once in 30 000 seeds. Anything outside of the law's
    support is infinitely wrong.
    """
    counts = Counter(drawn)
    total = counts.total()
    if set(counts) - {key for key, p in law.items() if p > 0}:
        return math.inf
    cells = {key: p * total for key, p in law.items() if p > 0}
    assert min(cells.values()) >= 5, "too few draws for the rarest cell"
    square = sum((counts[key] - mean) ** 2 / mean for key, mean in cells.items())
    freedom = len(cells) - 1
    return (square - freedom) / math.sqrt(2 * freedom)


def product(*laws: Mapping[Hashable, float]) -> dict[Hashable, float]:
    """The joint law of independent draws."""
    joint: dict[tuple[Hashable, ...], float] = {(): 1.0}
    for law in laws:
        joint = {(*key, new): p * q for key, p in joint.items() for new, q in law.items()}
    return dict(joint)
