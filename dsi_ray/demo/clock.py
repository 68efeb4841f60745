"""Training phases that last for a given time, with a progress bar."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

from rich.progress import Progress


def steps_for(minutes: float, phase: str) -> Iterator[tuple[int, float]]:
    """Yield (step number, share of the time used) until the minutes are over."""
    start = time.monotonic()
    with Progress() as bar:
        task = bar.add_task(phase, total=1.0)
        for step in count():
            share = (time.monotonic() - start) / (60 * minutes)
            if share >= 1:
                return
            bar.update(task, completed=share, description=f"{phase}, step {step}")
            yield step, share


def warm_up_then_decay(step: int, share: float, floor: float) -> float:
    """Return the learning rate factor: a short rise, a plateau, then a line down to `floor`."""
    rise = min(1.0, (step + 1) / 40)
    fall = min(1.0, (1 - share) / 0.7)
    return rise * (floor + (1 - floor) * fall)
