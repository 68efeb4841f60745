"""The trace of a request, under virtual time and in hostile orders."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.config import Algorithm
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Request
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.runtime.trace.recorder import TraceRecorder
from dsi_ray.runtime.trace.spans import Commit, Span, SpanKind, SpanOutcome, Trace
from tests.core.scenario import ALGORITHMS, Scenario
from tests.core.strategies import scenarios
from tests.runtime.traced import traced

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
FREE = st.just((0,))


def lanes(trace: Trace) -> dict[ServerId, list[Span]]:
    return {s: [span for span in trace.spans if span.server == s] for s in trace.servers}


def check(trace: Trace) -> None:
    """What holds for every trace at every moment."""
    for spans in lanes(trace).values():
        for span in spans:
            assert 0 <= span.begin <= span.end <= trace.seconds
            assert 0 <= span.accepted <= span.drafts
            if span.forwards and span.server.role is Role.TARGET:
                assert (span.kind is SpanKind.VERIFICATION) == (span.drafts > 0)
        for earlier, later in zip(spans, spans[1:], strict=False):
            assert earlier.end <= later.begin
        running = [span for span in spans if span.outcome is SpanOutcome.RUNNING]
        assert running in ([], spans[-1:])
        assert not (running and trace.over)
    times = [commit.time for commit in trace.commits]
    assert times == sorted(times)
    if trace.over:
        assert all(span.outcome is not SpanOutcome.PENDING for span in trace.spans)


@algorithms
@given(
    scenario=scenarios(),
    ordered=st.booleans(),
    abandon_after=st.none() | st.integers(1, 60),
    failing=st.none() | st.tuples(st.integers(0, 6), st.integers(0, 10)),
)
def test_holds_in_any_order(
    algorithm: str,
    scenario: Scenario,
    ordered: bool,
    abandon_after: int | None,
    failing: tuple[int, int] | None,
) -> None:
    servers = [*scenario.targets, *scenario.drafter_servers]
    fails = {} if failing is None else {servers[failing[0] % len(servers)]: failing[1]}
    if not scenario.drafters:
        algorithm = "non-si"
    driver = traced(
        scenario, algorithm, check=check, ordered=ordered, abandon_after=abandon_after, fails=fails
    )
    run = driver()
    trace = driver.trace
    check(trace)
    assert trace.over
    assert sum(commit.tokens for commit in trace.commits) == len(run.tokens)


@algorithms
@given(scenario=scenarios(min_drafters=1, messages=FREE))
def test_is_what_happened_where_messages_are_free(algorithm: str, scenario: Scenario) -> None:
    driver = traced(scenario, algorithm)
    run = driver()
    true = [span for span in run.spans if span.server.role is Role.TARGET and span.end > span.begin]
    seen = [span for span in driver.trace.spans if span.server.role is Role.TARGET]
    whole = Counter((span.server, span.begin, span.end) for span in true if not span.stopped)
    assert whole == Counter(
        (span.server, span.begin, span.end)
        for span in seen
        if span.outcome is not SpanOutcome.CANCELLED and span.end > span.begin
    )
    stopped = Counter((span.server, span.begin, span.end) for span in true if span.stopped)
    assert stopped == Counter(
        (span.server, span.begin, span.end)
        for span in seen
        if span.outcome is SpanOutcome.CANCELLED
    )


@algorithms
@given(scenario=scenarios(min_drafters=1))
def test_counts_are_the_decoders(algorithm: str, scenario: Scenario) -> None:
    driver = traced(scenario, algorithm)
    driver()
    counts = driver.decoder.counts
    drafts = [span for span in driver.trace.spans if span.kind is SpanKind.DRAFT]
    targets = [span for span in driver.trace.spans if span.server.role is Role.TARGET]
    assert sum(span.forwards for span in targets) == counts.target_forwards
    assert sum(span.forwards for span in drafts) == counts.drafter_forwards
    assert sum(span.tokens for span in drafts) == counts.drafted_tokens


@given(scenario=scenarios())
def test_plain_decoding_wastes_nothing(scenario: Scenario) -> None:
    driver = traced(scenario, "non-si")
    text = driver().tokens
    spans = driver.trace.spans
    first = len(scenario.prompt)
    assert [span.start for span in spans] == list(range(first, first + len(text)))
    assert {(span.kind, span.outcome) for span in spans} == {
        (SpanKind.DECODE_STEP, SpanOutcome.ACCEPTED)
    }


@given(scenario=scenarios(min_drafters=1, max_drafters=1, silent=False))
def test_taking_turns_sees_every_rejection(scenario: Scenario) -> None:
    driver = traced(scenario, "si")
    driver()
    tree, trace = driver.decoder.tree, driver.trace
    checks = [span for span in trace.spans if span.kind is SpanKind.VERIFICATION]
    assert sum(span.outcome is SpanOutcome.REJECTED for span in checks) == tree.rejected
    drafts = [span for span in trace.spans if span.kind is SpanKind.DRAFT and span.tokens]
    assert sum(span.accepted for span in drafts) == tree.accepted
    assert sum(span.outcome is SpanOutcome.REJECTED for span in drafts) == tree.rejected


@algorithms
@given(scenario=scenarios(min_drafters=1), abandon_after=st.none() | st.integers(1, 60))
def test_who_follows_gets_the_whole(
    algorithm: str, scenario: Scenario, abandon_after: int | None
) -> None:
    spans: list[Span] = []
    commits: list[Commit] = []
    settled = 0.0

    def follow(whole: Trace) -> None:
        nonlocal spans, commits, settled
        news = driver.trace_since(settled)
        spans = [*(span for span in spans if span.end < settled), *news.spans]
        commits = [*(commit for commit in commits if commit.time < settled), *news.commits]
        assert settled <= news.settled
        settled = news.settled
        assert Counter(spans) == Counter(whole.spans)
        assert commits == list(whole.commits)

    driver = traced(scenario, algorithm, check=follow, abandon_after=abandon_after)
    driver()
    follow(driver.trace)


@algorithms
@given(scenario=scenarios(min_drafters=1), bound=st.integers(0, 5))
def test_is_bounded(algorithm: str, scenario: Scenario, bound: int) -> None:
    whole, part = traced(scenario, algorithm), traced(scenario, algorithm, max_spans=bound)
    whole(), part()
    assert len(part.trace.spans) <= bound
    assert len(part.trace.commits) <= bound
    kept = len(part.trace.spans) + len(part.trace.commits)
    assert kept + part.trace.omitted == len(whole.trace.spans) + len(whole.trace.commits)
    assert part.trace.spans == whole.trace.spans[: len(part.trace.spans)]


def request(name: str) -> Request:
    return Request(name, (1,), StopCriteria(1), [ServerId(Role.TARGET, 0)])


def test_the_last_requests_are_kept() -> None:
    recorder = TraceRecorder(max_requests=2)
    for name in ("a", "b", "c"):
        recorder.open(request(name), Algorithm.DSI)
    assert [len(recorder.find(name)) for name in ("a", "b", "c", "d")] == [0, 1, 1, 0]


def test_the_parts_of_a_request_are_found_together() -> None:
    recorder = TraceRecorder()
    for name in ("a/0", "ab", "a/1", "b/0"):
        recorder.open(request(name), Algorithm.DSI)
    assert [trace.request for trace in recorder.find("a")] == ["a/0", "a/1"]
    assert [trace.request for trace in recorder.find("a/1")] == ["a/1"]
