"""HostileDriver: virtual time with failures, reordering and a client that goes away."""

from collections.abc import Callable, Sequence

from dsi_ray.core.decoders import Decoder
from dsi_ray.core.messages import Command, Emit, Fail, FinishReason, ServerId
from dsi_ray.core.server.scheduler import ScheduledRequest, ScheduledResult, Scheduler
from dsi_ray.experiments.virtual.virtual_time import VirtualDriver, VirtualModel

MOST_MOMENTS = 3_000
"""A run that takes more of them does not terminate."""


class HostileDriver(VirtualDriver):
    """Runs a decoder under adverse conditions and notes what the client saw.

    Args:
        decoder: Fresh.
        models: A model for each server.
        message: As for :class:`VirtualDriver`.
        observe: As for :class:`VirtualDriver`.
        ordered: Whether tasks to one server keep their order.
        fails: After how many forwards a server's every forward raises.
        abandon_after: The client goes away after that many handled moments.
    """

    def __init__(
        self,
        decoder: Decoder,
        models: dict[ServerId, VirtualModel],
        message: Callable[[], float] = lambda: 0.0,
        observe: Callable[[Decoder], None] = lambda decoder: None,
        *,
        ordered: bool = True,
        fails: dict[ServerId, int] | None = None,
        abandon_after: int | None = None,
    ) -> None:
        super().__init__(decoder, models, message, self._watch)
        self._check = observe
        self._ordered = ordered
        self._fails = dict(fails or {})
        self._abandon_after = abandon_after
        self._moments = 0
        self.abandoned_at: float | None = None
        self.finishes: list[FinishReason | None] = []
        self.failures: list[str] = []
        self.commands: list[Command] = []
        self.forwards: list[tuple[float, ServerId]] = []

    @property
    def decoder(self) -> Decoder:
        """The decoder that is run."""
        return self._decoder

    @property
    def batches(self) -> dict[ServerId, Scheduler]:
        """What every server holds."""
        return {where: server.batch for where, server in self._servers.items()}

    def _watch(self, decoder: Decoder) -> None:
        self._moments += 1
        assert self._moments < MOST_MOMENTS, "the run does not end"
        self._check(decoder)

    def _execute(self, commands: Sequence[Command]) -> None:
        if self.abandoned_at is not None:
            assert not commands, "an abandoned request asks for nothing"
        elif self._moments == self._abandon_after:
            self.abandoned_at = self._now
            commands = [*commands, *self._decoder.abandon()]
        for command in commands:
            self.commands.append(command)
            if isinstance(command, Emit):
                self.finishes.append(command.finish)
            if isinstance(command, Fail):
                self.failures.append(command.error)
        super()._execute(commands)

    def _result(self, where: ServerId, part: ScheduledRequest) -> ScheduledResult:
        self.forwards.append((self._now, where))
        if where in self._fails:
            if self._fails[where] == 0:
                return ScheduledResult(error="broken")
            self._fails[where] -= 1
        return super()._result(where, part)

    def _in_order(self, until: dict[ServerId, float], where: ServerId) -> float:
        if until is self._sent_until and not self._ordered:
            return self._now + self._message()
        return super()._in_order(until, where)
