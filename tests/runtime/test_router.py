"""Which group gets a request: balanced, near its prefix, never an unhealthy one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.runtime.client import router
from dsi_ray.runtime.client.router import BLOCK, Router
from dsi_ray.runtime.errors import EngineError

GROUPS = 3
Prompt = tuple[int, ...]

prompts = st.builds(
    lambda topic, blocks, rest: (topic,) * (blocks * BLOCK) + (9,) * rest,
    st.integers(0, 4),
    st.integers(0, 6),
    st.integers(1, 100),
)
groups = st.integers(0, GROUPS - 1)
steps = st.one_of(
    prompts,
    prompts,
    prompts,
    st.tuples(st.just("end"), st.integers(0, 20)),
    st.tuples(st.sampled_from(["exclude", "include"]), groups),
)


def talk(topic: int, blocks: int) -> Prompt:
    """A prompt whose beginning is that of all longer ones on the topic, and nobody else's."""
    return (topic,) * (blocks * BLOCK) + (topic + 1,)


def send(router: Router, prompt: Prompt, output: int = 10) -> int:
    """Routes a request that goes on."""
    group = router.choose(prompt)
    router.begin(group, len(prompt) + output)
    return group


@given(st.lists(steps, max_size=60))
def test_no_group_is_ahead_by_more_than_a_prompt(history: list[tuple[int | str, ...]]) -> None:
    router, loads, healthy = Router(GROUPS), [0] * GROUPS, set(range(GROUPS))
    running: list[tuple[int, int]] = []
    for step in history:
        match step:
            case ("end", int(index)):
                if running:
                    group, cost = running.pop(index % len(running))
                    router.end(group, cost)
                    loads[group] -= cost
            case ("exclude", int(group)):
                router.exclude(group)
                healthy.discard(group)
            case ("include", int(group)):
                router.include(group)
                healthy.add(group)
            case _ if not healthy:
                with pytest.raises(EngineError):
                    router.choose(step)
            case _:
                group = router.choose(step)
                assert group in healthy
                least = min(loads[other] for other in healthy)
                assert loads[group] - least <= len(step) // BLOCK * BLOCK
                cost = len(step) + 10
                router.begin(group, cost)
                loads[group] += cost
                running.append((group, cost))


@given(st.lists(prompts, min_size=1, max_size=40))
def test_the_same_requests_take_the_same_way(history: list[Prompt]) -> None:
    first, second = Router(GROUPS), Router(GROUPS)
    assert [send(first, prompt) for prompt in history] == [
        send(second, list(prompt)) for prompt in history
    ]


@given(st.lists(st.integers(0, 5), max_size=40))
def test_a_conversation_goes_on_where_it_was(others: list[int]) -> None:
    router = Router(GROUPS)
    home = router.choose(talk(7, 1))
    for turn, topic in enumerate(others):
        # Each ends before the next begins.
        router.choose(talk(topic, 2))
        assert router.choose(talk(7, 2 + turn)) == home


def test_unrelated_prompts_of_idle_groups_take_turns() -> None:
    router = Router(GROUPS)
    assert [router.choose((i,)) for i in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_busy_group_loses_its_conversations_for_as_long_as_it_is_busy() -> None:
    router = Router(2)
    home = router.choose(talk(1, 4))
    router.begin(home, 3 * BLOCK)
    assert router.choose(talk(1, 4)) == home
    router.begin(home, 2 * BLOCK)
    away = router.choose(talk(1, 4))
    assert away != home
    router.end(home, 5 * BLOCK)
    # Now both have it.
    router.begin(away, 1)
    assert router.choose(talk(1, 4)) == home


def test_a_prefix_that_all_share_does_not_send_all_to_one_group() -> None:
    router = Router(GROUPS)
    system = (1,) * (8 * BLOCK)
    sent = [send(router, (*system, 2 + index)) for index in range(30)]
    assert {sent.count(group) for group in range(GROUPS)} == {10}


def test_another_beginning_is_another_prefix() -> None:
    router = Router(2)
    router.choose((1,) * BLOCK + (2,) * BLOCK)
    assert router.choose((3,) * BLOCK + (2,) * BLOCK) == 1


def test_an_excluded_group_comes_back_with_nothing_in_its_caches() -> None:
    router = Router(2)
    home = router.choose(talk(1, 4))
    router.exclude(home)
    assert router.choose(talk(1, 4)) != home
    router.include(home)
    assert router.choose(talk(1, 4)) != home
    assert router.choose(talk(8, 1)) == home


def test_what_is_remembered_is_bounded_and_begins_at_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router, "MAX_BLOCKS", 8)
    only = Router(1)
    prefixes = only._prefixes[0]

    def known(topic: int) -> int:
        return prefixes.matched(list(router._blocks(talk(topic, 100))))

    for topic in (1, 3, 1, 5):
        only.choose(talk(topic, 4))
    # The least recently used goes first, and of a prefix its end.
    assert [known(topic) for topic in (1, 3, 5)] == [4, 0, 4]
    only.choose(talk(7, 2))
    assert [known(topic) for topic in (1, 5, 7)] == [2, 4, 2]
    only.choose(talk(9, 100))
    assert [known(topic) for topic in (1, 5, 7, 9)] == [0, 0, 0, 8]
    assert len(prefixes._blocks) == 8
