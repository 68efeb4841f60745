"""What the properties found once, as fixed examples."""

from dataclasses import replace

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Plan
from dsi_ray.experiments.virtual.virtual_time import Run
from tests.core.language import Guesser, Language
from tests.core.scenario import Scenario


def scenario(language: Language, drafters: list[Guesser], plan: Plan, most: int) -> Scenario:
    """One target server, free messages."""
    return Scenario(language, tuple(drafters), (0,), StopCriteria(most), 1, plan)


def decode(case: Scenario) -> Run:
    """A run of DSI, which must give the text."""
    run = case.driver("dsi")()
    assert run.tokens == case.expected[0]
    return run


def test_a_drafter_does_not_draft_what_is_judged() -> None:
    """It moved to the tip of a slower one, behind verdicts, drafted a dead path, and again."""
    language = Language(0, 2)
    drafters = [Guesser(language, 0, 0.0), Guesser(language, 0, 0.0)]
    case = replace(
        scenario(language, drafters, Plan(5, 5), 29),
        sp_degree=4,
        target_latencies=(0, 29, 24, 24, 12, 10),
        drafter_latencies=((0,), (13,)),
    )
    decode(case)


def test_a_drafter_does_not_go_back_on_its_own_path() -> None:
    """It moved to the tip of a slower one, behind its own last right draft, and again."""
    language = Language(5968, 6)
    drafters = [Guesser(language, 566, 0.0, 0.0), Guesser(language, 0, 0.0)]
    target = (0, 28, 0, 0, 0, 0, 29, 12, 24, 0, 0, 10, 24, 9, 20)
    case = replace(
        scenario(language, drafters, Plan(5, 5), 29),
        sp_degree=4,
        target_latencies=(*target, 0, 0, 0, 0, 24, 0, 10, 11, 13, 19),
        drafter_latencies=((21,), (0,)),
    )
    decode(case)


def test_abandoning_cancels_a_task_that_began_before_it_was_displaced() -> None:
    """Displaced while queued, as the coordinator saw it; running alone, in truth."""
    language = Language(0, 2)
    case = replace(
        scenario(language, [Guesser(language, 0, a) for a in (0.0, 1.0, 0.0)], Plan(1, 2), 3),
        target_latencies=(3,),
        drafter_latencies=((2,), (1,), (1,)),
        messages=(2,),
    )
    driver = case.driver("dsi", abandon_after=2)
    driver()
    assert driver.abandoned_at is not None
    assert all(time <= driver.abandoned_at + 2 for time, _ in driver.forwards)


def test_a_running_task_believed_displaced_is_not_replaced() -> None:
    """The anchor took the place of a forward that was about to deliver the same token."""
    language = Language(474495, 4)
    case = replace(
        scenario(language, [Guesser(language, 210211, 0.6)], Plan(2, 36), 6),
        drafter_latencies=((2,),),
        messages=(1,),
    )
    assert decode(case).seconds <= 6 * 10 + 2


def test_a_task_that_goes_on_from_the_own_path_is_not_replaced() -> None:
    """The server was further than its queued task, and the anchor did not count on it."""
    language = Language(611487, 4)
    case = replace(
        scenario(language, [Guesser(language, 314911, 0.8)], Plan(1, 34), 3),
        drafter_latencies=((8,),),
        messages=(2,),
    )
    assert decode(case).seconds <= 3 * 10 + 4
