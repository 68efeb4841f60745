"""When to come back."""

from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.serving.admission.service_rate import ServiceRate

counts = st.integers(0, 1000)


def steady(seconds: float) -> ServiceRate:
    """Every request is inside for this long."""
    pace = ServiceRate()
    for _ in range(5):
        pace.left(seconds)
    return pace


def test_little_s_law() -> None:
    # Four at a time, eight seconds each: one ends every two seconds.
    assert steady(8).retry_after_s(inside=4, waiting=10, awaited=4) == 22
    # Of this client's only one runs: it takes its time.
    assert steady(8).retry_after_s(inside=4, waiting=0, awaited=1) == 8


@given(st.floats(0, 1000), counts, counts, counts)
def test_it_is_a_second_at_least_and_grows_with_the_queue(
    seconds: float, inside: int, waiting: int, awaited: int
) -> None:
    for pace in (ServiceRate(), steady(seconds)):
        estimate = pace.retry_after_s(inside, waiting, awaited)
        assert 1 <= estimate <= pace.retry_after_s(inside, waiting + 1, awaited)


def test_it_follows_what_happened_lately() -> None:
    pace = steady(100)
    for _ in range(200):
        pace.left(2)
    assert pace.retry_after_s(inside=1, waiting=0, awaited=1) == 3
