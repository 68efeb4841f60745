"""TargetPool: which target servers serve which request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.core.group.pool import TargetPool
from dsi_ray.core.messages import Role, ServerId

SERVERS = [ServerId(Role.TARGET, i) for i in range(3)]


@pytest.fixture
def pool() -> TargetPool:
    """Three servers."""
    return TargetPool(SERVERS)


def collect(pool: TargetPool, most: int) -> None:
    """The donors give their last servers."""
    for donor in pool.donors(most):
        pool.take(donor, pool.own(donor)[-1])


def admit(pool: TargetPool, request: str, most: int = 9) -> list[ServerId]:
    """What a new request gets after the donors have given theirs."""
    collect(pool, most)
    return pool.admit(request, most)


def lose(pool: TargetPool, server: ServerId) -> None:
    """A server dies; who had no other gets one."""
    pool.lose(server)
    for _ in pool.without:
        collect(pool, 1)
        pool.grow()


def test_a_request_alone_gets_all_that_it_wants(pool: TargetPool) -> None:
    assert admit(pool, "a", 2) == SERVERS[:2]
    assert admit(pool, "b", 2) == SERVERS[2:]
    assert pool.size == 3


def test_a_rich_request_gives_up_what_is_the_share_of_a_new_one(pool: TargetPool) -> None:
    assert admit(pool, "a") == SERVERS
    assert admit(pool, "b") == SERVERS[2:]
    assert pool.held("a") == SERVERS[:2]
    assert admit(pool, "c") == SERVERS[1:2]
    assert [pool.crowd(request) for request in "abc"] == [1, 1, 1]


def test_with_more_requests_than_servers_each_has_one(pool: TargetPool) -> None:
    for request in "abcdefg":
        admit(pool, request)
    assert all(len(pool.held(request)) == 1 for request in "abcdefg")
    assert sorted(pool.crowd(request) for request in "abcdefg") == [2, 2, 2, 2, 3, 3, 3]


def test_who_shares_gets_a_free_server_first(pool: TargetPool) -> None:
    for request in "abcd":
        admit(pool, request, 1)
    pool.release("b")
    assert pool.grow() == [("a", SERVERS[1])]
    assert pool.shared("a") == SERVERS[:1]
    pool.take("a", SERVERS[0])
    assert [pool.held(request) for request in "acd"] == [SERVERS[1:2], SERVERS[2:], SERVERS[:1]]
    assert pool.grow() == []


def test_what_is_left_over_goes_to_the_poorest(pool: TargetPool) -> None:
    for request in "abc":
        admit(pool, request)
    pool.release("c")
    assert pool.grow() == [("a", SERVERS[1])]
    pool.release("a")
    assert pool.grow() == [("b", SERVERS[0]), ("b", SERVERS[1])]
    pool.release("b")
    assert pool.grow() == []


def test_releasing_twice_is_fine(pool: TargetPool) -> None:
    admit(pool, "a", 1)
    pool.release("a")
    pool.release("a")
    assert admit(pool, "c", 1) == SERVERS[:1]


def test_a_request_is_admitted_once(pool: TargetPool) -> None:
    pool.admit("a", 1)
    with pytest.raises(ValueError, match="already"):
        pool.admit("a", 1)


def test_a_lost_server_serves_nobody_until_it_is_back(pool: TargetPool) -> None:
    admit(pool, "a", 3)
    pool.lose(SERVERS[0])
    assert pool.held("a") == SERVERS[1:]
    assert pool.grow() == []
    pool.restore(SERVERS[0])
    assert pool.grow() == [("a", SERVERS[0])]


def test_who_lost_the_last_server_shares_one(pool: TargetPool) -> None:
    for request in "abc":
        admit(pool, request, 1)
    lose(pool, SERVERS[2])
    assert pool.held("c") == SERVERS[:1]
    assert pool.crowd("c") == 2


def test_who_lost_the_last_server_gets_one_of_a_rich_request(pool: TargetPool) -> None:
    admit(pool, "a", 1)
    admit(pool, "b", 2)
    lose(pool, SERVERS[0])
    assert pool.held("a") == SERVERS[2:]


def test_who_shares_all_its_servers_gives_up_none(pool: TargetPool) -> None:
    for request in "abcdefg":
        admit(pool, request, 1)
    for request in "be":
        pool.release(request)
    assert pool.grow() == [("a", SERVERS[1])]
    pool.take("g", SERVERS[0])
    assert pool.grow() == [("g", SERVERS[1])]
    assert pool.shared("a") == SERVERS[:2]
    assert pool.donors(1) == []


def test_an_isolated_request_shares_with_nobody(pool: TargetPool) -> None:
    for request in "abcd":
        admit(pool, request, 1)
    assert pool.isolate("a") == SERVERS[:1]
    assert pool.isolate("d") == SERVERS[:1]
    for request in "ad":
        pool.take(request, SERVERS[0])
    assert pool.waiting == ["a", "d"]
    assert pool.confine("a") == (SERVERS[0], [])
    assert pool.confine("d") is None
    assert admit(pool, "e", 1) == SERVERS[1:2]
    pool.mingle("a")
    assert pool.confine("d", only=SERVERS) is None
    assert pool.confine("d") == (SERVERS[0], ["a"])


@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(st.sampled_from(["admit", "release", "lose", "restore"]), st.integers(0, 7))
    ),
)
def test_servers_are_neither_idle_nor_hoarded(size: int, changes: list[tuple[str, int]]) -> None:
    """Whatever comes and goes: who can use a free server has it, and nobody has two if others
    share one."""
    servers = [ServerId(Role.TARGET, i) for i in range(size)]
    pool, most, alive = TargetPool(servers), {}, set(servers)
    for what, number in changes:
        server = servers[number % size]
        request = str(number)
        if what == "admit" and request not in most:
            most[request] = 1 + number % 3
            admit(pool, request, most[request])
        elif what == "release":
            most.pop(request, None)
            pool.release(request)
        elif what == "lose":
            alive.discard(server)
            lose(pool, server)
        elif what == "restore":
            alive.add(server)
            pool.restore(server)
        for grown, _ in pool.grow():
            for shared in pool.shared(grown) if pool.own(grown) else ():
                pool.take(grown, shared)
        held = {request: pool.held(request) for request in most}
        used = {server for servers in held.values() for server in servers}
        assert used <= alive
        assert all(held.values()) or not alive
        assert all(len(held[request]) <= most[request] for request in most)
        crowded = any(pool.crowd(request) > 1 for request in most)
        wanting = any(len(held[request]) < most[request] for request in most)
        if used != alive:
            assert not crowded
            assert not wanting
        if crowded:
            assert all(len(held[request]) <= 1 for request in most)
