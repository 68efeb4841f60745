"""TracedDriver: virtual time with a trace, fed as the coordinator feeds it."""

from collections.abc import Callable, Sequence
from typing import Any

from dsi_ray.config import Algorithm
from dsi_ray.core.decoders import Decoder
from dsi_ray.core.messages import Command, Event
from dsi_ray.runtime.trace.record import RequestTrace
from dsi_ray.runtime.trace.spans import Trace
from tests.core.hostile import HostileDriver
from tests.core.scenario import Scenario


class TracedDriver(HostileDriver):
    """A hostile run of which a trace is kept.

    Args:
        decoder: Fresh.
        algorithm: Which it is.
        check: Called with every trace on the way.
        max_spans: Bound on the trace.
        options: As for :class:`HostileDriver`.
    """

    def __init__(
        self,
        decoder: Decoder,
        *arguments: Any,
        algorithm: Algorithm,
        check: Callable[[Trace], None] = lambda trace: None,
        max_spans: int = 10_000,
        **options: Any,
    ) -> None:
        super().__init__(decoder, *arguments, **options)
        self._trace = RequestTrace(decoder.request, algorithm, max_spans)
        self._check_trace = check

    @property
    def trace(self) -> Trace:
        """What was recorded so far."""
        return self.trace_since(0.0)

    def trace_since(self, seconds: float) -> Trace:
        """What was recorded so far, without what ended before."""
        return self._trace.snapshot(self._now, seconds)

    def _handle(self, events: list[Event]) -> list[Command]:
        for event in events:
            self._trace.hear(event, self._now)
        return super()._handle(events)

    def _execute(self, commands: Sequence[Command]) -> None:
        already = len(self.commands)
        super()._execute(commands)
        for command in self.commands[already:]:
            self._trace.say(command, self._now)
        if self.abandoned_at is not None:
            self._trace.end(self.abandoned_at)
        self._check_trace(self.trace)


def traced(scenario: Scenario, algorithm: str, **options: Any) -> TracedDriver:
    """A driver of a fresh decoder that keeps a trace."""

    def kind(decoder: Decoder, *arguments: Any, **more: Any) -> TracedDriver:
        return TracedDriver(decoder, *arguments, algorithm=Algorithm(algorithm), **more)

    driver = scenario.driver(algorithm, kind, **options)
    assert isinstance(driver, TracedDriver)
    return driver
