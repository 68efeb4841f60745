"""A simulated model: its tokens and times as pure functions, and waits that stop at once."""

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.config import Simulation
from dsi_ray.core.messages import Role
from dsi_ray.models import simulated
from dsi_ray.models.base import Extension, ForwardCancelled, Sampling, extend_one
from dsi_ray.models.simulated import (
    Share,
    SimulatedModel,
    drafter_token,
    forward_seconds,
    is_accepted,
    target_token,
)
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
GO = threading.Event()
FAST = Simulation(tpot_ms=0.01, acceptance_rate=0.7)
POSITIONS = range(1, 4001)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that forwards would have waited: the clock stands still at 0."""
    seconds: list[float] = []
    monkeypatch.setattr(simulated, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(simulated, "wait_until", lambda deadline, stop: seconds.append(deadline))
    return seconds


def test_two_servers_give_the_same_verdict_whatever_they_computed_before() -> None:
    one, other = (SimulatedModel(FAST, Role.TARGET, index) for index in range(2))
    extend_one(other, Extension("a", (9, 9, 9), 1, GREEDY))
    expected = [target_token(FAST, position, trace=1) for position in (2, 3)]
    assert extend_one(one, Extension("a", (1, 2, 3), 2, GREEDY)).tokens == expected
    assert extend_one(other, Extension("a", (1, 2, 3), 2, GREEDY)).tokens == expected
    assert extend_one(other, Extension("b", (1, 5, 6, 7), 2, GREEDY)).tokens[:2] == expected


def test_prompts_that_begin_differently_have_traces_of_their_own() -> None:
    traces = [[target_token(FAST, i, trace) for i in range(9)] for trace in range(50)]
    assert len(set(map(tuple, traces))) == 50
    rates = [sum(is_accepted(FAST, i, trace) for i in POSITIONS) for trace in range(3)]
    assert all(abs(rate / len(POSITIONS) - 0.7) < 0.03 for rate in rates)


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.7, 0.95, 1.0])
def test_the_drafter_agrees_at_its_acceptance_rate(seed: int, rate: float) -> None:
    simulation = Simulation(tpot_ms=1, acceptance_rate=rate, seed=seed, vocab_size=50)
    agreed = [drafter_token(simulation, i) == target_token(simulation, i) for i in POSITIONS]
    assert agreed == [is_accepted(simulation, i) for i in POSITIONS]
    # Four standard deviations of a binomial variable.
    assert abs(sum(agreed) / len(agreed) - rate) <= 4 * (rate * (1 - rate) / len(agreed)) ** 0.5


def test_acceptances_do_not_depend_on_their_neighbours() -> None:
    accepted = [is_accepted(FAST, i) for i in POSITIONS]
    after = [b for a, b in zip(accepted, accepted[1:], strict=False) if a]
    assert abs(sum(after) / len(after) - 0.7) < 4 * (0.21 / len(after)) ** 0.5


def test_a_rejected_draft_differs_even_in_the_smallest_vocabulary() -> None:
    never = Simulation(tpot_ms=1, acceptance_rate=0, vocab_size=2)
    assert all(drafter_token(never, i) == 1 - target_token(never, i) for i in POSITIONS)


def test_tokens_cover_the_vocabulary_evenly() -> None:
    counts = [0] * 4
    for i in POSITIONS:
        counts[target_token(Simulation(tpot_ms=1, vocab_size=4), i)] += 1
    assert all(abs(count - 1000) < 4 * 750**0.5 for count in counts)


TIMED = Simulation(ttft_ms=100, tpot_ms=30, per_token_ms=2)


@pytest.mark.parametrize(
    ("computed", "wanted", "first", "milliseconds"),
    [
        (50, 0, True, 70),  # a prefill
        (50, 1, True, 100),
        (50, 4, True, 106),
        (1, 1, False, 30),
        (4, 4, False, 36),
        (6, 2, False, 40),  # catching up costs, too
        (3, 0, False, 34),
        (0, 0, False, 0),
    ],
)
def test_how_long_a_forward_takes(
    computed: int, wanted: int, first: bool, milliseconds: float
) -> None:
    share = Share(computed, wanted, first)
    assert forward_seconds(TIMED, [share]) == pytest.approx(milliseconds / 1000)


shares = st.builds(Share, st.integers(1, 40), st.just(1), st.booleans())


@given(batch=st.lists(shares, min_size=1, max_size=8), knee=st.integers(1, 100))
def test_a_batch_takes_no_longer_than_its_parts_in_turn_and_no_less_than_any(
    batch: list[Share], knee: int
) -> None:
    for ttft in (None, 45.0):
        simulation = Simulation(tpot_ms=30, ttft_ms=ttft, per_token_ms=0.5, knee_tokens=knee)
        together = forward_seconds(simulation, batch)
        alone = [forward_seconds(simulation, [share]) for share in batch]
        assert max(alone) <= together <= sum(alone) + 1e-9


def test_tokens_are_free_up_to_the_knee() -> None:
    simulation = Simulation(tpot_ms=30, per_token_ms=2, knee_tokens=16)
    decoding = [Share(1, 1, False)] * 12
    assert forward_seconds(simulation, decoding) == 0.03
    assert forward_seconds(simulation, [*decoding, Share(4, 4, False)]) == 0.03
    assert forward_seconds(simulation, [*decoding, Share(9, 9, False)]) == 0.04
    assert forward_seconds(simulation, [*decoding, Share(104, 0, True)]) == 0.23


def test_sessions_that_begin_together_each_add_their_prompt() -> None:
    begin = Share(50, 1, True)
    assert forward_seconds(TIMED, [begin, begin]) == pytest.approx(0.172)


def test_without_a_ttft_the_first_forward_is_like_any_other() -> None:
    assert forward_seconds(Simulation(tpot_ms=30), [Share(50, 1, True)]) == 0.03
    assert forward_seconds(Simulation(tpot_ms=30), [Share(50, 0, True)]) == 0


def test_extend_waits_for_what_the_session_lacks(waits: list[float]) -> None:
    model = SimulatedModel(TIMED, Role.TARGET)
    prompt = tuple(range(50))
    extend_one(model, Extension("a", prompt, 51, GREEDY))
    extend_one(model, Extension("a", prompt, 50, GREEDY))
    extend_one(model, Extension("a", (*prompt, 1, 2, 3), 51, GREEDY))
    extend_one(model, Extension("a", (*prompt, 1, 5), 52, GREEDY))
    extend_one(model, Extension("b", prompt, 50, GREEDY))
    assert waits == pytest.approx([0.07, 0.03, 0.034, 0.03, 0.1])
    model.release("a")
    extend_one(model, Extension("a", prompt, 50, GREEDY))
    assert waits[-1] == pytest.approx(0.1)


def test_a_batch_waits_once_and_says_what_each_part_alone_would(waits: list[float]) -> None:
    model = SimulatedModel(TIMED, Role.TARGET)
    batch = [Extension(name, (i, 5, 6), 2, GREEDY) for i, name in enumerate("abc")]
    together = model.extend(batch, GO)
    assert len(waits) == 1
    assert together == [extend_one(SimulatedModel(TIMED, Role.TARGET), part) for part in batch]


def test_the_cache_is_counted(waits: list[float]) -> None:
    model = SimulatedModel(TIMED, Role.TARGET)
    extend_one(model, Extension("a", (1, 2, 3), 4, GREEDY))
    extend_one(model, Extension("a", (1, 2, 5, 6), 3, GREEDY))
    stats = model.cache_stats
    assert (stats.computed_tokens, stats.reused_tokens, stats.sessions) == (5, 2, 1)
    model.release("unknown")


def test_jitter_is_seeded_and_differs_between_servers(waits: list[float]) -> None:
    jittery = Simulation(tpot_ms=10, jitter=0.2)

    def run(index: int) -> list[float]:
        waits.clear()
        model = SimulatedModel(jittery, Role.TARGET, index)
        for _ in range(400):
            extend_one(model, Extension("a", (1,), 1, GREEDY))
        return list(waits)

    first = run(0)
    assert first == run(0) != run(1)
    mean = sum(first) / len(first)
    assert mean == pytest.approx(0.01, rel=0.04)
    assert (sum((w - mean) ** 2 for w in first) / 400) ** 0.5 == pytest.approx(0.002, rel=0.15)


def test_a_set_event_stops_even_an_endless_wait() -> None:
    stop = threading.Event()
    stop.set()
    model = SimulatedModel(Simulation(tpot_ms=1e9), Role.TARGET)
    with pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", (1,), 1, GREEDY), stop)


def test_an_endless_wait_is_stopped_from_another_thread() -> None:
    stop = threading.Event()
    waiting, ended = threading.Event(), threading.Event()

    class Announced(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waiting.set()
            return stop.wait(timeout)

    def forward() -> None:
        with pytest.raises(ForwardCancelled):
            extend_one(
                SimulatedModel(Simulation(tpot_ms=1e9), Role.TARGET),
                Extension("a", (1,), 1, GREEDY),
                Announced(),
            )
        ended.set()

    threading.Thread(target=forward, daemon=True).start()
    assert waiting.wait(30)
    stop.set()
    assert ended.wait(30)


def test_a_stopped_first_forward_has_computed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimulatedModel(TIMED, Role.TARGET)
    stop = threading.Event()
    stop.set()
    with pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", (1, 2), 3, GREEDY), stop)
    assert model.cache_stats.computed_tokens == 0
    assert model.cache_stats.sessions == 0


@pytest.mark.parametrize(("seconds", "waits_once"), [(0.001, True), (0.03, False)])
def test_a_long_wait_is_split_so_that_it_ends_on_time(
    seconds: float, waits_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5.0

    class Late(threading.Event):
        count = 0

        def wait(self, timeout: float | None = None) -> bool:
            nonlocal now
            assert timeout is not None
            now += timeout * 1.01 + simulated._WAKE_UP
            self.count += 1
            return False

    clock: Callable[[], float] = lambda: now  # noqa: E731
    monkeypatch.setattr(simulated, "perf_counter", clock)
    stop = Late()
    simulated.wait_until(5.0 + seconds, stop)
    assert (stop.count == 1) is waits_once
    assert now - 5.0 == pytest.approx(seconds, abs=simulated._WAKE_UP)


def test_info() -> None:
    info = SimulatedModel(FAST, Role.DRAFTER).info
    assert (info.vocab_size, info.eos_ids, info.parameters) == (32_000, (), 0)
