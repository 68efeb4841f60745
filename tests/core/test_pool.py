"""TargetPool: which target servers serve which request."""

import pytest

from dsi_ray.core.messages import Role, ServerId
from dsi_ray.core.pool import TargetPool

SERVERS = [ServerId(Role.TARGET, i) for i in range(3)]


@pytest.fixture
def pool() -> TargetPool:
    """Three servers."""
    return TargetPool(SERVERS)


def test_gives_the_servers_with_the_fewest_requests(pool: TargetPool) -> None:
    assert pool.assign("a", 2) == SERVERS[:2]
    assert pool.assign("b", 2) == [SERVERS[2], SERVERS[0]]


def test_gives_no_more_than_there_are(pool: TargetPool) -> None:
    assert pool.assign("a", 9) == SERVERS
    assert pool.size == 3


def test_a_released_server_is_free_again(pool: TargetPool) -> None:
    pool.assign("a", 1)
    pool.release("a")
    assert pool.assign("b", 1) == SERVERS[:1]


def test_releasing_twice_is_fine(pool: TargetPool) -> None:
    pool.assign("a", 1)
    pool.assign("b", 3)
    pool.release("a")
    pool.release("a")
    assert pool.assign("c", 1) == SERVERS[:1]


def test_a_request_is_assigned_once(pool: TargetPool) -> None:
    pool.assign("a", 1)
    with pytest.raises(ValueError, match="already"):
        pool.assign("a", 1)


def test_a_lost_server_serves_nobody(pool: TargetPool) -> None:
    pool.assign("a", 3)
    pool.lose(SERVERS[0])
    pool.release("a")
    assert pool.size == 2
    assert pool.assign("b", 3) == SERVERS[1:]
