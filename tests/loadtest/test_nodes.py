"""Two Ray nodes in network namespaces, with a slow link: the planner knows how slow it is."""

import pytest

from loadtest.errors import LoadTestError
from loadtest.faults.netns import SlowLink, unavailable
from loadtest.faults.nodes import ROWS, study


@pytest.mark.usefixtures("starts_ray")
def test_a_message_takes_what_the_link_adds() -> None:
    if why := unavailable():
        pytest.skip(why)
    added_ms = 20.0
    rows = study([added_ms], texts=1, tokens=8, drafters=[(3.0, 0.9)])
    assert len(rows) == ROWS
    for row in rows:
        assert row["round_trip_ms"] >= 2 * added_ms
    assert all(row["message_ms"] >= added_ms for row in rows if row["layout"] == "apart")


def test_where_there_are_no_namespaces_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LoadTestError, match="install iproute2"):
        SlowLink()
