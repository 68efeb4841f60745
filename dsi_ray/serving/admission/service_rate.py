"""How fast requests come and go, to tell those who are turned away when to come back."""

import math

_WEIGHT = 1 / 16
"""Of the last one in the mean."""


class ServiceRate:
    """The mean time that requests have been inside lately, failed and abandoned ones too."""

    def __init__(self) -> None:
        self._mean_s: float | None = None

    def left(self, seconds: float) -> None:
        """Takes note of a request that was inside for this long."""
        if self._mean_s is None:
            self._mean_s = seconds
        else:
            self._mean_s += _WEIGHT * (seconds - self._mean_s)

    def retry_after_s(self, inside: int, waiting: int, awaited: int) -> int:
        """Estimates when there will be room, in whole seconds, at least one.

        By Little's law generations end at a rate of ``inside`` over the mean time. At that rate
        all that wait get in, and then one of the ``awaited`` ends. Nothing is known until a first
        request has ended; then the estimate is a second.

        Args:
            inside: Generations inside.
            waiting: Generations that wait.
            awaited: Generations of which one has to end.
        """
        seconds = (self._mean_s or 0.0) * (waiting / max(inside, 1) + 1 / max(awaited, 1))
        return max(math.ceil(seconds), 1)
