"""Figures from records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.metrics import Distribution, figures, is_good, most_at_once
from loadtest.record import Drafts, Record
from loadtest.scenario import Slo

TIME = st.floats(0, 100, allow_nan=False)


@st.composite
def records(draw: st.DrawFn) -> Record:
    due, sent, *chunks, end = sorted(draw(st.lists(TIME, min_size=4, max_size=12)))
    error = draw(st.sampled_from([None, None, "http_503", "timeout"]))
    return Record(
        point="",
        index=0,
        scheduled_s=due,
        sent_s=sent,
        chunks_s=tuple(chunks),
        end_s=end + 1e-3,
        prompt_tokens=draw(st.integers(1, 99)),
        completion_tokens=draw(st.none() | st.integers(len(chunks), 99)),
        error=error,
    )


def record(**changes: object) -> Record:
    """Due at 1, sent at 2, four pieces of text with 13 tokens from 3 to 9."""
    values: dict[str, object] = {
        "point": "",
        "index": 0,
        "scheduled_s": 1.0,
        "sent_s": 2.0,
        "chunks_s": (3.0, 4.0, 6.0, 9.0),
        "end_s": 9.0,
        "prompt_tokens": 7,
        "completion_tokens": 13,
    }
    return Record.model_validate(values | changes)


def test_definitions() -> None:
    found = figures([record()], Slo())
    assert found.ttft_ms is not None and found.ttft_ms.mean == 2000
    assert found.e2e_ms is not None and found.e2e_ms.mean == 8000
    assert found.tpot_ms is not None and found.tpot_ms.mean == (8000 - 2000) / (13 - 1)
    assert found.chunk_gap_ms is not None and found.chunk_gap_ms.mean == 2000
    assert found.send_lag_ms is not None and found.send_lag_ms.mean == 1000
    assert (found.window_s, found.requests_per_s) == (9.0, 1 / 9)
    assert (found.output_tokens_per_s, found.tokens_per_chunk) == (13 / 9, 13 / 4)
    assert (found.prompt_tokens, found.completion_tokens, found.goodput) == (7, 13, None)


@pytest.mark.parametrize("tokens", [None, 0, 1])
def test_no_time_per_output_token_without_a_second_one(tokens: int | None) -> None:
    assert record(completion_tokens=tokens).tpot_s is None
    assert is_good(record(completion_tokens=tokens), Slo(tpot_ms=1))


@given(st.lists(records(), min_size=1, max_size=20), st.floats(1, 1e5), st.floats(1, 1e5))
def test_goodput_counts_those_that_meet_every_objective(
    sent: list[Record], ttft: float, e2e: float
) -> None:
    found = figures(sent, Slo(ttft_ms=ttft, e2e_ms=e2e))
    count = 0
    for each in sent:
        if each.error is None and each.ttft_s is not None:
            count += 1e3 * each.ttft_s <= ttft and 1e3 * each.e2e_s <= e2e
    assert found.goodput is not None
    assert found.goodput.share == count / len(sent)
    assert found.goodput.requests_per_s == count / found.window_s


@given(st.lists(records(), min_size=1, max_size=20))
def test_failures_are_counted_and_are_no_latencies(sent: list[Record]) -> None:
    found = figures(sent, Slo())
    good = [r for r in sent if r.error is None]
    assert sum(found.errors.values()) == found.failed == len(sent) - len(good)
    assert found.requests_per_s == len(good) / found.window_s
    assert (found.e2e_ms.count if found.e2e_ms else 0) == len(good)
    assert found.completion_tokens == sum(r.completion_tokens or 0 for r in good)
    assert found.ttft_ms is None or found.e2e_ms is None or found.ttft_ms.p50 <= found.e2e_ms.p50


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), max_size=12))
def test_most_at_once(spans: list[list[int]]) -> None:
    moments = (sum(begin <= moment < end for begin, end in spans) for moment in range(10))
    assert most_at_once((begin, end) for begin, end in spans) == max(moments)


@given(st.lists(TIME, min_size=1))
def test_distribution(values: list[float]) -> None:
    found = Distribution.of([*values, None])
    assert found is not None
    assert found.count == len(values)
    assert min(values) <= found.p50 <= found.p90 <= found.p99 <= max(values)
    assert found.p50 == pytest.approx(np.median(values))
    assert found.mean == pytest.approx(np.mean(values))


def test_drafts_are_summed_over_requests() -> None:
    few = Drafts(num_draft_tokens=10, num_accepted_draft_tokens=4, num_spec_steps=2)
    many = Drafts(num_draft_tokens=30, num_accepted_draft_tokens=26, num_spec_steps=8)
    found = figures([record(drafts=few), record(drafts=many), record()], Slo())
    assert (found.drafted_tokens, found.accepted_tokens) == (40, 30)
    assert (found.acceptance_rate, found.mean_acceptance_length) == (0.75, 4)
    assert figures([record()], Slo()).drafted_tokens is None
