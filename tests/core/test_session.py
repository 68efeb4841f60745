"""ServerSession: one running task and at most one queued; the server's own path decides."""

from dataclasses import replace

import pytest

from dsi_ray.core.messages import (
    Ended,
    EndReason,
    Event,
    Mode,
    Output,
    Role,
    ServerId,
    Task,
    TokenLogprobs,
)
from dsi_ray.core.path import Path
from dsi_ray.core.server.session import ForwardStep, ServerSession

SERVER = ServerId(Role.TARGET, 0)
LIMIT = 20


def task(id: int, tokens: tuple[int, ...], start: int, limit: int = LIMIT, report: int = 1) -> Task:
    """A task; 9 is its stop id."""
    return Task(id, "request", SERVER, Path.of(tokens), start, limit, frozenset({9}), report)


def step(tokens: tuple[int, ...], start: int, proposals: tuple[bytes, ...] = ()) -> ForwardStep:
    """A forward."""
    return ForwardStep(Path.of(tokens), start, proposals)


def ended(id: int, reason: EndReason) -> Ended:
    """The end of a task without output."""
    return Ended(id, reason)


@pytest.fixture
def session() -> ServerSession:
    """A server without work."""
    return ServerSession()


def run(session: ServerSession, *tokens: int) -> list[Event]:
    """One forward that gives ``tokens``."""
    assert session.next_step() is not None
    return session.finish(tokens)


def begin(session: ServerSession, new: Task, mode: Mode = Mode.REPLACE) -> None:
    """Submits a task to a server on which it displaces nothing."""
    assert session.submit(new, mode) == []


def test_a_plain_step_goes_on_alone(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    assert session.next_step() == step((1, 2), 2)
    assert session.finish([3]) == [Output(0, 2, (3,), goes_on=True)]
    assert session.next_step() == step((1, 2, 3), 3)


def test_there_is_one_forward_at_a_time(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    assert session.next_step() is None


def test_a_mismatch_goes_on_alone_from_the_own_path(session: ServerSession) -> None:
    begin(session, task(0, (1, 2, 3, 4), 2))
    assert run(session, 3, 7, 8) == [Output(0, 2, (3, 7), goes_on=True)]
    assert session.next_step() == step((1, 2, 3, 7), 4)


def test_full_acceptance_ends_the_task(session: ServerSession) -> None:
    begin(session, task(0, (1, 2, 3, 4), 2))
    assert run(session, 3, 4, 5) == [Output(0, 2, (3, 4, 5), goes_on=False)]
    assert session.idle


def test_the_limit_ends_going_on_alone(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2, limit=4))
    assert run(session, 3) == [Output(0, 2, (3,), goes_on=True)]
    assert run(session, 4) == [Output(0, 3, (4,), goes_on=False)]
    assert session.idle


def test_no_limit_means_no_going_on(session: ServerSession) -> None:
    begin(session, task(0, (1, 2, 3), 2, limit=0))
    assert run(session, 7) == [Output(0, 2, (7,), goes_on=False)]


def test_a_stop_ends_going_on_alone(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    assert run(session, 9) == [Output(0, 2, (9,), goes_on=False)]


def test_fewer_tokens_than_asked_end_the_task(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    assert run(session) == [Output(0, 2, (), goes_on=False)]
    assert session.idle


def test_replace_ends_the_running_and_the_queued_task(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    replaced = [ended(0, EndReason.REPLACED), ended(1, EndReason.REPLACED)]
    assert session.submit(task(2, (1, 5), 2), Mode.REPLACE) == replaced
    assert session.interrupted
    session.stopped()
    assert session.next_step() == step((1, 5), 2)


def test_a_stopped_forward_that_ended_anyway_counts_for_nothing(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    session.submit(task(1, (1, 5), 2), Mode.REPLACE)
    assert session.finish([3]) == []
    assert run(session, 6) == [Output(1, 2, (6,), goes_on=True)]


def test_a_queued_task_replaces_the_one_queued_before(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    assert session.submit(task(2, (1, 2, 3, 4), 3), Mode.QUEUE) == [ended(1, EndReason.REPLACED)]
    assert not session.interrupted
    assert session.finish([3]) == [Output(0, 2, (3,), goes_on=False)]
    assert session.next_step() == step((1, 2, 3, 4), 3)


def test_a_queued_task_on_another_path_is_dropped(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    outputs = session.finish([7])
    assert outputs == [Output(0, 2, (7,), goes_on=True), ended(1, EndReason.DROPPED)]
    assert session.next_step() == step((1, 2, 7), 3)


def test_a_task_for_an_idle_server_is_dropped_off_its_path(session: ServerSession) -> None:
    begin(session, task(0, (1, 2, 3), 2))
    run(session, 3, 4)
    late = task(1, (1, 2, 3, 5), 4)
    assert session.submit(late, Mode.QUEUE) == [ended(1, EndReason.DROPPED)]
    assert session.idle


def test_a_queued_task_begins_at_the_first_position_it_does_not_know(
    session: ServerSession,
) -> None:
    begin(session, task(0, (1, 2), 2))
    run(session, 3)
    session.next_step()
    begin(session, task(1, (1, 2, 3, 4, 5), 3), Mode.QUEUE)
    assert session.finish([4]) == [Output(0, 3, (4,), goes_on=False)]
    assert session.next_step() == step((1, 2, 3, 4, 5), 4)
    assert session.finish([5, 6]) == [Output(1, 4, (5, 6), goes_on=False)]


def test_a_queued_task_that_is_overtaken_goes_on_from_the_own_path(
    session: ServerSession,
) -> None:
    begin(session, task(0, (1, 2), 2))
    run(session, 3)
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    session.finish([4])
    assert session.next_step() == step((1, 2, 3, 4), 4)
    assert session.finish([5]) == [Output(1, 3, (4, 5), goes_on=True)]


def test_an_overtaken_task_that_may_not_go_on_reports_and_ends(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2), 2, limit=0), Mode.QUEUE)
    assert session.finish([3]) == [
        Output(0, 2, (3,), goes_on=False),
        Output(1, 2, (3,), goes_on=False, forwards=0),
    ]
    assert session.idle


def test_a_successor_further_ahead_skips_what_others_verify(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3, 4, 5), 5), Mode.QUEUE)
    session.finish([3])
    assert session.next_step() == step((1, 2, 3, 4, 5), 5)


def test_a_server_that_left_its_draft_never_returns_to_it(session: ServerSession) -> None:
    """Going on alone, it is fed its own tokens, not the task's."""
    begin(session, task(0, (1, 2, 3, 4, 5), 2))
    run(session, 6)
    assert run(session, 4) == [Output(0, 3, (4,), goes_on=True)]
    assert session.next_step() == step((1, 2, 6, 4), 4)


def test_cancelling_the_running_task_runs_the_queued_one(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    assert session.cancel(0) == [ended(0, EndReason.CANCELLED)]
    assert session.interrupted
    session.stopped()
    assert session.next_step() == step((1, 2, 3), 3)


def test_cancelling_the_queued_task_leaves_the_running_one(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    assert session.cancel(1) == [ended(1, EndReason.CANCELLED)]
    assert not session.interrupted
    assert session.finish([3]) == [Output(0, 2, (3,), goes_on=True)]


def test_cancelling_an_unknown_task_is_fine(session: ServerSession) -> None:
    assert session.cancel(5) == []


def test_cancelling_leaves_the_server_idle(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    session.cancel(0)
    assert not session.idle, "the forward has not stopped yet"
    session.stopped()
    assert session.idle


def test_a_failure_ends_every_task(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3), Mode.QUEUE)
    assert session.fail("no memory") == [
        Ended(0, EndReason.FAILED, "no memory"),
        Ended(1, EndReason.FAILED, "no memory"),
    ]
    assert session.idle


def test_new_work_waits_for_a_prefill(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 3, limit=0))
    assert session.next_step() == step((1, 2), 3)
    begin(session, task(1, (1, 2, 3, 4), 3))
    assert not session.interrupted
    assert session.finish([]) == [ended(0, EndReason.DONE)]
    assert session.next_step() == step((1, 2, 3, 4), 3)


def test_newer_work_replaces_what_waits_for_a_prefill(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 3, limit=0))
    session.next_step()
    begin(session, task(1, (1, 2, 3), 3))
    assert session.submit(task(2, (1, 2, 3, 4), 3), Mode.REPLACE) == [ended(1, EndReason.REPLACED)]


def test_reports_come_in_batches(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2, limit=6, report=3))
    assert run(session, 3) == run(session, 4) == []
    assert run(session, 5) == [Output(0, 2, (3, 4, 5), goes_on=True, forwards=3)]
    assert run(session, 6) == [Output(0, 5, (6,), goes_on=False)]


def test_a_batch_is_reported_at_its_end_or_at_a_stop(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2, report=5))
    assert run(session, 3) == []
    assert run(session, 9) == [Output(0, 2, (3, 9), goes_on=False, forwards=2)]


def test_a_batch_is_reported_when_its_task_is_displaced_by_a_queued_one(
    session: ServerSession,
) -> None:
    begin(session, task(0, (1, 2), 2, report=5))
    run(session, 3)
    session.next_step()
    begin(session, task(1, (1, 2), 2, report=5), Mode.QUEUE)
    assert session.finish([4]) == [Output(0, 2, (3, 4), goes_on=False, forwards=2)]
    assert session.next_step() == step((1, 2, 3, 4), 4)


def entries(*values: float) -> tuple[TokenLogprobs, ...]:
    """Log probabilities that can be told apart."""
    return tuple(TokenLogprobs(value) for value in values)


def run_with(session: ServerSession, *tokens: int) -> list[tuple[TokenLogprobs, ...]]:
    """One forward whose log probability of each token is minus the token; what was reported."""
    assert session.next_step() is not None
    events = session.finish(tokens, logprobs=entries(*(-token for token in tokens)))
    return [event.logprobs for event in events if isinstance(event, Output)]


def test_bug_7_rejected_tokens_report_no_logprobs(session: ServerSession) -> None:
    """Those of a block end where its tokens do, and those of later steps follow."""
    begin(session, task(0, (1, 2, 3, 4, 5), 2))
    assert run_with(session, 3, 7, 8, 8) == [entries(-3, -7)]
    assert run_with(session, 6) == [entries(-6)]


def test_tokens_reported_together_have_their_logprobs(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2, report=2))
    assert run_with(session, 3) == []
    assert run_with(session, 4) == [entries(-3, -4)]


def test_a_successor_takes_over_the_logprobs_of_what_it_knows(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    session.next_step()
    begin(session, task(1, (1, 2), 2, limit=0), Mode.QUEUE)
    events = session.finish([3], logprobs=entries(-3))
    assert [event.logprobs for event in events if isinstance(event, Output)] == [entries(-3)] * 2


def test_a_new_path_forgets_the_logprobs_of_the_old_one(session: ServerSession) -> None:
    begin(session, task(0, (1, 2), 2))
    run_with(session, 3)
    session.next_step()
    assert session.submit(task(1, (1, 2, 3, 4), 3), Mode.REPLACE)
    session.stopped()
    assert run_with(session, 4, 5) == [entries(-4, -5)]


def test_a_step_has_the_proposals_of_what_is_not_known(session: ServerSession) -> None:
    """A successor starts behind the own path; a server that goes on alone has no drafts."""
    verify = replace(task(1, (1, 2, 3, 4), 2), proposals=(b"a", b"b", b"c"))
    session.submit(task(0, (1, 2), 2), Mode.REPLACE)
    session.next_step()
    session.submit(verify, Mode.QUEUE)
    session.finish([3])
    assert session.next_step() == step((1, 2, 3, 4), 3, (b"b", b"c"))
    session.finish([5])
    assert session.next_step() == step((1, 2, 3, 5), 4)


def test_drafts_reported_together_have_their_proposals(session: ServerSession) -> None:
    session.submit(task(0, (1,), 1, report=2), Mode.REPLACE)
    session.next_step()
    assert session.finish([2], proposals=(b"a",)) == []
    session.next_step()
    (output,) = session.finish([3], proposals=(b"b",))
    assert isinstance(output, Output)
    assert (output.tokens, output.proposals) == ((2, 3), (b"a", b"b"))
