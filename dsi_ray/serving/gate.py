"""A bound on what one replica generates at once: beyond it, clients are told to come back."""

from collections.abc import Iterator
from contextlib import contextmanager

from dsi_ray.serving.errors import ApiError

RETRY_AFTER_S = 1


class Gate:
    """Counts generations: each choice of each prompt is one.

    Attributes:
        limit: Most of them at once.
        in_use: How many there are now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0

    @contextmanager
    def hold(self, count: int) -> Iterator[None]:
        """Lets ``count`` generations in for the length of a ``with`` block.

        A request larger than the limit gets in when it is alone: it would otherwise never.

        Raises:
            ApiError: There is no room (503).
        """
        if self.in_use and self.in_use + count > self.limit:
            raise ApiError(
                503,
                f"The server is busy with {self.in_use} generations; try again later.",
                code="overloaded",
                headers={"retry-after": str(RETRY_AFTER_S)},
            )
        self.in_use += count
        try:
            yield
        finally:
            self.in_use -= count
