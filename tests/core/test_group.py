"""Group: many requests share servers that come and go, and each gets its own text."""

from hypothesis import given, settings

from tests.core.crowd import Crowd, crowds


@settings(max_examples=400, deadline=None)
@given(crowds())
def test_every_request_gets_its_text_whatever_happens_to_servers_and_others(crowd: Crowd) -> None:
    driver = crowd.driver()
    for request, served in driver().items():
        expected = crowd.expected(request)
        assert served.error is None or len(crowd.outages) >= 3
        if served.error is None and request not in driver.left:
            assert served.tokens == expected
        else:
            assert served.tokens == expected[: len(served.tokens)]


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_nothing_is_left_behind(crowd: Crowd) -> None:
    driver = crowd.driver()
    driver()
    group = driver.group
    assert not group.members
    assert not group.tasks
    assert not driver.busy
    assert not any(group.pool.held(request) for request in driver.served)
