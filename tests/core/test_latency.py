"""How long decoding takes in virtual time, against plain decoding and closed forms."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Plan
from dsi_ray.core.planning.performance_model import smallest_lookahead
from tests.core.language import Guesser, Language
from tests.core.oracles import block_seconds, ideal_seconds, trace, turns_seconds
from tests.core.scenario import Scenario
from tests.core.strategies import scenarios

CONSTANT = st.integers(1, 30).map(lambda value: (value,))
FREE = st.just((0,))


@st.composite
def traces(draw: st.DrawFn) -> Scenario:
    """One drafter, constant latencies, free messages, no stop: a text is its acceptance trace."""
    drafter = draw(st.integers(1, 12))
    target = drafter * draw(st.integers(1, 6)) + draw(st.integers(0, drafter - 1))
    language = Language(draw(st.integers(0, 2**16)), 6)
    acceptance = draw(st.sampled_from([0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 1.0]))
    return Scenario(
        target=language,
        drafters=(Guesser(language, draw(st.integers(0, 2**16)), acceptance),),
        prompt=(0,),
        criteria=StopCriteria(draw(st.integers(1, 40))),
        sp_degree=1,
        plan=Plan(1, 32),
        target_latencies=(target,),
        drafter_latencies=((drafter,),),
    )


def latencies(scenario: Scenario) -> tuple[int, int]:
    """Of the target and the drafter."""
    return scenario.target_latencies[0], scenario.drafter_latencies[0][0]


def planned(scenario: Scenario, servers: int, lookahead: int | None = None) -> Plan:
    """The smallest lookahead of Equation 1, or a given one; drafts enough to outlast a message.

    Without the bet on a first block, which gives up the guarantee of every trace.
    """
    target, drafter = latencies(scenario)
    target += scenario.messages[0]
    lookahead = lookahead or smallest_lookahead(target, drafter, servers)
    return Plan(lookahead, run_ahead=lookahead * (servers + 1) + 32)


@given(scenarios(target_latencies=CONSTANT, messages=FREE, bets=False))
def test_never_later_than_plain_decoding(scenario: Scenario) -> None:
    assert scenario.seconds("dsi") <= scenario.seconds("non-si")


@given(traces(), st.integers(0, 10), st.one_of(st.none(), st.integers(1, 8)))
def test_messages_to_one_server_cost_one_round_trip(
    scenario: Scenario, message: int, lookahead: int | None
) -> None:
    """With a message shorter than half a forward, and drafts enough to outlast it."""
    target, _ = latencies(scenario)
    message = min(message, target // 2)
    scenario = replace(scenario, messages=(message,))
    scenario = replace(scenario, plan=planned(scenario, 1, lookahead))
    assert scenario.seconds("dsi") <= target * scenario.criteria.max_tokens + 2 * message


@given(traces(), st.integers(0, 10), st.integers(1, 4), st.booleans())
def test_messages_to_several_servers_cost_one_round_trip_where_they_are_known_to_be_long(
    scenario: Scenario, message: int, servers: int, far: bool
) -> None:
    """Else a decode step may be given up for one that began later: that is one a token at most."""
    target, _ = latencies(scenario)
    message = min(message, target // 2)
    scenario = replace(scenario, messages=(message,), sp_degree=servers)
    scenario = replace(scenario, plan=replace(planned(scenario, servers), far=far))
    tokens = scenario.criteria.max_tokens
    round_trips = 1 if far else tokens
    assert scenario.seconds("dsi") <= target * tokens + round_trips * 2 * message


@given(traces(), st.integers(0, 3))
def test_enough_servers_give_the_ideal_latency(scenario: Scenario, spare: int) -> None:
    target, drafter = latencies(scenario)
    servers = max(2, -(-target // drafter)) + spare
    scenario = replace(scenario, sp_degree=servers, plan=planned(scenario, servers, 1))
    assert scenario.seconds("dsi") == ideal_seconds(trace(scenario), target, drafter)


@given(traces(), st.integers(2, 6))
def test_smallest_lookahead_is_as_fast_as_its_blocks(scenario: Scenario, servers: int) -> None:
    target, drafter = latencies(scenario)
    lookahead = smallest_lookahead(target, drafter, servers)
    scenario = replace(scenario, sp_degree=servers, plan=planned(scenario, servers, lookahead))
    bound = block_seconds(trace(scenario), target, drafter, lookahead, servers)
    assert scenario.seconds("dsi") <= bound


@given(traces(), st.integers(1, 8))
def test_taking_turns_costs_drafts_and_a_forward(scenario: Scenario, lookahead: int) -> None:
    target, drafter = latencies(scenario)
    scenario = replace(scenario, plan=replace(scenario.plan, lookahead=lookahead, run_ahead=99))
    seconds = turns_seconds(trace(scenario), target, drafter, lookahead)
    assert scenario.seconds("si") == seconds


@given(traces())
def test_plain_decoding_costs_a_forward_a_token(scenario: Scenario) -> None:
    target, _ = latencies(scenario)
    assert scenario.seconds("non-si") == target * scenario.criteria.max_tokens
