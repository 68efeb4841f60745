"""What hypothesis draws: languages, drafters of every quality, hostile latencies."""

from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Plan
from tests.core.language import Guesser, Language
from tests.core.scenario import Durations, Scenario

SEEDS = st.integers(0, 2**16)
SP_DEGREES = st.integers(1, 4)


def durations(least: int = 0, most: int = 30) -> st.SearchStrategy[Durations]:
    """Latencies used in turn: often constant, sometimes anything."""
    values = st.integers(least, most)
    return st.one_of(values.map(lambda value: (value,)), st.lists(values, min_size=1).map(tuple))


@st.composite
def languages(draw: st.DrawFn) -> Language:
    """Targets; two tokens make drafts agree by luck, six hardly ever."""
    return Language(draw(SEEDS), draw(st.integers(2, 6)))


@st.composite
def guessers(draw: st.DrawFn, target: Language, *, silent: bool = True) -> Guesser:
    """Drafters: always wrong, always right or in between; some silent at times."""
    acceptance = draw(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)))
    opinion = draw(st.sampled_from([1.0, 1.0, 0.7, 0.0])) if silent else 1.0
    return Guesser(target, draw(SEEDS), acceptance, opinion)


@st.composite
def plans(draw: st.DrawFn, *, bets: bool = True) -> Plan:
    """Lookaheads and run-aheads, tight and wide; ``bets``: first blocks that replace a step."""
    lookahead = draw(st.integers(1, 8))
    run_ahead = lookahead + draw(st.integers(0, 24))
    first_block = draw(st.integers(0, min(run_ahead, 8))) if bets else 0
    return Plan(lookahead, run_ahead, first_block)


@st.composite
def scenarios(
    draw: st.DrawFn,
    *,
    min_drafters: int = 0,
    max_drafters: int = 3,
    silent: bool = True,
    bets: bool = True,
    target_latencies: st.SearchStrategy[Durations] | None = None,
    messages: st.SearchStrategy[Durations] | None = None,
    sp_degrees: st.SearchStrategy[int] = SP_DEGREES,
) -> Scenario:
    """Any request on any servers."""
    target = draw(languages())
    tokens = st.integers(0, target.vocabulary - 1)
    count = draw(st.integers(min_drafters, max_drafters))
    return Scenario(
        target=target,
        drafters=tuple(draw(guessers(target, silent=silent)) for _ in range(count)),
        prompt=tuple(draw(st.lists(tokens, min_size=1, max_size=4))),
        criteria=StopCriteria(draw(st.integers(1, 40)), draw(st.frozensets(tokens, max_size=1))),
        sp_degree=draw(sp_degrees),
        plan=draw(plans(bets=bets)),
        target_latencies=draw(durations() if target_latencies is None else target_latencies),
        drafter_latencies=tuple(draw(durations()) for _ in range(count)),
        messages=draw(durations() if messages is None else messages),
        contexts=tuple(draw(st.one_of(st.just(100), st.integers(1, 44))) for _ in range(count)),
    )
