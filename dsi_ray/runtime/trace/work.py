"""Work: a stretch of work whose outcome depends on the text to come."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsi_ray.core.messages import Role, ServerId
from dsi_ray.runtime.trace.spans import Span, SpanKind, SpanOutcome


@dataclass(slots=True, eq=False)
class TracedWork:
    """What becomes a :class:`Span` when somebody asks.

    Attributes:
        server: As in the span.
        kind: As in the span.
        begin: As in the span.
        end: As in the span.
        start: As in the span.
        outcome: Where it does not depend on the text.
        base: Position of the first token of ``path``.
        path: What it was conditioned on beyond what was committed, then what it gave.
        tokens: As in the span.
        drafts: As in the span.
        agreed: Of a verification: how many drafts were the target's own tokens.
        forwards: As in the span.
        waited: Seconds from when its task was sent to its begin; None where the task had reported.
        late: Whether its task had been told to stop.
    """

    server: ServerId
    kind: SpanKind
    begin: float
    end: float
    start: int
    outcome: SpanOutcome | None = None
    base: int = 0
    path: tuple[int, ...] = ()
    tokens: int = 0
    drafts: int = 0
    agreed: int = 0
    forwards: int = 0
    waited: float | None = None
    late: bool = False

    def span(self, known: Sequence[int], over: bool) -> Span:
        """The span, given the text from ``base`` on and whether that is all of it."""
        outcome, accepted = self.outcome, self.agreed
        if outcome is None:
            same = agreement(self.path, known)
            contradicted = same < min(len(self.path), len(known))
            outcome = self._outcome(same - (self.start - self.base), contradicted, over)
            if self.server.role is Role.DRAFTER:
                accepted = max(0, same - (self.start - self.base))
        return Span(
            server=self.server,
            kind=self.kind,
            outcome=outcome,
            begin=self.begin,
            end=self.end,
            start=self.start,
            tokens=self.tokens,
            drafts=self.drafts,
            accepted=accepted,
            forwards=self.forwards,
        )

    def _outcome(self, came_true: int, contradicted: bool, over: bool) -> SpanOutcome:
        """What became of it; ``came_true`` of its tokens did, less than 0 if its path did not."""
        if contradicted and (came_true < 0 or self.server.role is Role.TARGET):
            return SpanOutcome.UNUSED
        if contradicted:
            return SpanOutcome.REJECTED
        if came_true < self.tokens and not (over and came_true > 0):
            return SpanOutcome.UNUSED if over else SpanOutcome.PENDING
        is_rejection = self.server.role is Role.TARGET and self.agreed < self.drafts
        return SpanOutcome.REJECTED if is_rejection else SpanOutcome.ACCEPTED


def agreement(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two paths share, from the first on."""
    for count, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return count
    return min(len(one), len(other))
