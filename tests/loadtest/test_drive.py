"""When requests are sent, in virtual time: a stalled server cannot hide."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from loadtest.clock import Clock
from loadtest.drive import drive_closed, drive_open
from loadtest.load import Closed
from loadtest.metrics import figures
from loadtest.record import Record
from loadtest.request import Request
from loadtest.scenario import Slo
from tests.loadtest.virtual_loop import run_virtually


class Answers:
    """Answers each request after a time of its own, and remembers who asked when."""

    def __init__(self, clock: Clock, seconds: list[float]) -> None:
        self.records: list[Record] = []
        self.now = self.most = 0
        self._clock = clock
        self._seconds = seconds

    async def send(self, request: Request, due: float) -> None:
        sent = self._clock.now()
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self._seconds[request.index])
        self.now -= 1
        end = self._clock.now()
        self.records.append(
            Record(
                point="",
                index=request.index,
                scheduled_s=due,
                sent_s=sent,
                chunks_s=(end,),
                end_s=end,
                completion_tokens=1,
            )
        )


def open_loop(due: list[float], seconds: list[float], max_in_flight: int) -> Answers:
    async def main() -> Answers:
        clock = Clock()
        answers = Answers(clock, seconds)
        asked = (Request(index, "", {}) for index in range(len(due)))
        await drive_open(due, asked, max_in_flight, clock, answers.send)
        return answers

    return run_virtually(main())


def closed_loop(load: Closed, seconds: list[float]) -> Answers:
    async def main() -> Answers:
        clock = Clock()
        answers = Answers(clock, seconds)
        asked = (Request(index, "", {}) for index in range(len(seconds)))
        await drive_closed(load, asked, clock, answers.send)
        return answers

    return run_virtually(main())


TIMES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30).map(
    lambda pairs: ([float(gap) for gap, _ in pairs], [float(take) for _, take in pairs])
)


@given(TIMES, st.integers(1, 5))
def test_open_loop_sends_everything_when_due_or_when_there_is_room(
    times: tuple[list[float], list[float]], limit: int
) -> None:
    gaps, seconds = times
    due = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    answers = open_loop(due, seconds, limit)
    records = sorted(answers.records, key=lambda record: record.index)
    assert [record.scheduled_s for record in records] == due
    assert answers.most <= limit
    # A queue with ``limit`` servers, first come, first served.
    free = [0.0] * limit
    for record, take in zip(records, seconds, strict=True):
        begin = max(record.scheduled_s, free[0])
        free = sorted([*free[1:], begin + take])
        assert (record.sent_s, record.e2e_s) == (begin, begin + take - record.scheduled_s)


def test_a_stall_counts_for_all_that_were_due_meanwhile() -> None:
    """A server that stalls for 10 s: of a closed loop one request is slow, here ten are."""
    due = [float(second) for second in range(20)]
    answers = open_loop(due, [10.0] + [0.0] * 19, max_in_flight=1)
    found = figures(answers.records, Slo(e2e_ms=500))
    assert sorted(record.e2e_s for record in answers.records)[-10:] == list(range(1, 11))
    assert found.goodput is not None and found.goodput.share == 0.5
    assert found.most_unsent == 9
    assert found.send_lag_ms is not None and found.send_lag_ms.mean == sum(range(1, 10)) / 20 * 1e3


@given(
    st.lists(st.integers(1, 9).map(float), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(0, 4),
)
def test_closed_loop_keeps_its_clients_busy(
    seconds: list[float], concurrency: int, ramp: int
) -> None:
    load = Closed(kind="closed", concurrency=concurrency, requests=len(seconds), ramp_s=ramp)
    answers = closed_loop(load, seconds)
    assert sorted(record.index for record in answers.records) == list(range(len(seconds)))
    free = [index * ramp / concurrency for index in range(concurrency)]
    for record, take in zip(
        sorted(answers.records, key=lambda record: record.index), seconds, strict=True
    ):
        assert record.sent_s == record.scheduled_s == free[0]
        free = sorted([*free[1:], free[0] + take])


def test_closed_loop_stops_asking_at_its_end_and_hears_the_last_answer() -> None:
    load = Closed(kind="closed", concurrency=2, duration_s=10)
    answers = closed_loop(load, [4.0] * 30)
    assert sorted(record.end_s for record in answers.records) == [4.0, 4.0, 8.0, 8.0, 12.0, 12.0]
