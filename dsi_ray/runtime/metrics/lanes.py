"""Lanes: how long each server was busy, and for whom."""

from collections.abc import Sequence

from dsi_ray.core.messages import ServerId


class Lanes:
    """The time of each server, of which every moment counts once.

    Requests that a server computes together report the same forward, each with all of its time;
    reports that were heard together may be of several forwards, one after another.
    """

    def __init__(self) -> None:
        self._counted: dict[ServerId, float] = {}

    def divide(self, server: ServerId, spans: Sequence[tuple[float, float]]) -> list[float]:
        """Divides a server's time among stretches of work that were reported together.

        Args:
            server: The server.
            spans: The end of each and how long it took, in seconds.

        Returns:
            The seconds that each counts for; together at most what has passed since the last time.
        """
        # Parts of one forward have taken the same time to the last bit, different forwards never.
        forwards = sum({seconds for _, seconds in spans})
        all_parts = sum(seconds for _, seconds in spans)
        end = max(end for end, _ in spans)
        begin = max(end - forwards, self._counted.get(server, 0.0))
        if end <= begin or not all_parts:
            return [0.0] * len(spans)
        self._counted[server] = end
        return [(end - begin) * seconds / all_parts for _, seconds in spans]
