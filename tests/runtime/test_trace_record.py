"""Single cases of a trace, event by event."""

from functools import partial

from dsi_ray.config import Algorithm
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Request
from dsi_ray.core.messages import (
    Cancel,
    Emit,
    Ended,
    EndReason,
    FinishReason,
    Mode,
    Output,
    Role,
    ServerId,
    Start,
    Task,
)
from dsi_ray.core.path import Path
from dsi_ray.runtime.trace.record import RequestTrace
from dsi_ray.runtime.trace.spans import Span, SpanKind, SpanOutcome
from tests.core.counting import operations

TARGET = ServerId(Role.TARGET, 0)
DRAFTER = ServerId(Role.DRAFTER, 0)
PROMPT = (7, 7)


def record() -> RequestTrace:
    request = Request("r", PROMPT, StopCriteria(9), [TARGET], [DRAFTER])
    return RequestTrace(request, Algorithm.DSI)


def task(number: int, draft: tuple[int, ...] = (), server: ServerId = TARGET) -> Task:
    return Task(number, "r", server, Path.of(PROMPT + draft), start=len(PROMPT))


def test_replaced_work_ends_when_the_replacement_is_sent_not_when_its_end_is_heard() -> None:
    trace = record()
    trace.say(Start(task(0), Mode.REPLACE), 1.0)
    trace.say(Start(task(1, (5,)), Mode.REPLACE), 3.0)
    trace.hear(Ended(0, EndReason.REPLACED), 6.0)
    trace.hear(Output(1, 2, (5, 6), goes_on=False, seconds=2.5), 6.0)
    assert trace.snapshot(6.0).spans == (
        Span(TARGET, SpanKind.DECODE_STEP, SpanOutcome.CANCELLED, 1.0, 3.0, start=2),
        Span(TARGET, SpanKind.VERIFICATION, SpanOutcome.PENDING, 3.5, 6.0, 2, 2, 1, 1, 1),
    )


def test_work_that_waited_leaves_no_span() -> None:
    trace = record()
    trace.say(Start(task(0), Mode.REPLACE), 1.0)
    trace.say(Start(task(1, (5,)), Mode.QUEUE), 2.0)
    trace.say(Cancel(1), 3.0)
    trace.hear(Ended(1, EndReason.CANCELLED), 4.0)
    (span,) = trace.snapshot(5.0).spans
    assert span == Span(TARGET, SpanKind.DECODE_STEP, SpanOutcome.RUNNING, 1.0, 5.0, start=2)


def test_a_prefill_is_not_replaced() -> None:
    trace = record()
    prefill = Task(0, "r", TARGET, Path.of(PROMPT[:1]), start=2)
    trace.say(Start(prefill, Mode.REPLACE), 0.0)
    trace.say(Start(task(1, (5,)), Mode.REPLACE), 1.0)
    trace.hear(Ended(0, EndReason.DONE), 2.0)
    assert [(span.kind, span.outcome, span.end) for span in trace.snapshot(3.0).spans] == [
        (SpanKind.PREFILL, SpanOutcome.ACCEPTED, 2.0),
        (SpanKind.VERIFICATION, SpanOutcome.RUNNING, 3.0),
    ]


def test_a_drafts_outcome_follows_the_text() -> None:
    trace = record()
    trace.say(Start(task(0, server=DRAFTER), Mode.REPLACE), 0.0)
    trace.hear(Output(0, 2, (1, 2), goes_on=True, seconds=1.0), 1.0)
    trace.hear(Output(0, 4, (3, 4), goes_on=True, seconds=1.0), 2.0)
    trace.hear(Output(0, 6, (5, 6), goes_on=False, seconds=1.0), 3.0)

    def outcomes() -> list[tuple[SpanOutcome, int]]:
        return [(span.outcome, span.accepted) for span in trace.snapshot(9.0).spans]

    assert outcomes() == [(SpanOutcome.PENDING, 0)] * 3
    trace.say(Emit((1, 2, 3)), 3.0)
    assert outcomes() == [
        (SpanOutcome.ACCEPTED, 2),
        (SpanOutcome.PENDING, 1),
        (SpanOutcome.PENDING, 0),
    ]
    trace.say(Emit((9,), FinishReason.LENGTH), 4.0)
    assert outcomes() == [
        (SpanOutcome.ACCEPTED, 2),
        (SpanOutcome.REJECTED, 1),
        (SpanOutcome.UNUSED, 0),
    ]


def test_the_targets_steps_after_a_rejection_are_plain() -> None:
    trace = record()
    trace.say(Start(task(0, (1, 2, 3)), Mode.REPLACE), 0.0)
    trace.hear(Output(0, 2, (1, 9), goes_on=True, seconds=1.0), 1.0)
    trace.hear(Output(0, 4, (8,), goes_on=True, seconds=1.0), 2.0)
    trace.say(Emit((1, 9, 8)), 2.0)
    first, second, running = trace.snapshot(3.0).spans
    assert (first.kind, first.outcome, first.drafts, first.accepted) == (
        SpanKind.VERIFICATION,
        SpanOutcome.REJECTED,
        3,
        1,
    )
    assert (second.kind, second.outcome) == (SpanKind.DECODE_STEP, SpanOutcome.ACCEPTED)
    assert (running.kind, running.outcome) == (SpanKind.DECODE_STEP, SpanOutcome.RUNNING)


def test_an_unknown_task_is_ignored() -> None:
    trace = record()
    trace.say(Cancel(5), 0.0)
    trace.hear(Ended(5, EndReason.DONE), 0.0)
    assert trace.snapshot(1.0).spans == ()


def test_a_token_costs_the_same_however_long_the_text_before_it() -> None:
    trace = record()
    trace.say(Start(task(0), Mode.REPLACE), 0.0)

    def go_on(position: int) -> None:
        work = trace.hear(Output(0, position, (5,), goes_on=True, seconds=1.0), position)
        trace.say(Emit((5,)), position)
        assert work is not None
        assert trace.outcome(work) is SpanOutcome.ACCEPTED

    costs = [operations(partial(go_on, position)) for position in range(2, 1000)]
    assert max(costs) < 1.2 * min(costs[1:])
