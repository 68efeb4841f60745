"""What is said of servers that die, hang and come back."""

import logging

import pytest

from dsi_ray.core.messages import Role, ServerId
from dsi_ray.runtime.coordinator.faults import Faults

SERVER = ServerId(Role.TARGET, 3)


def test_every_line_of_the_log_names_group_and_server(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults(group=2)
    with caplog.at_level(logging.INFO, "dsi_ray"):
        faults.hung(SERVER)
        faults.note(SERVER, OSError("gone"))
        faults.back(SERVER)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    for record in caplog.records:
        # For formatters that write fields; for the others it is in the text.
        assert (record.__dict__["group"], record.__dict__["server"]) == (2, "target-3")
        assert record.getMessage().startswith("group 2: target-3 ")
    assert [(fault["server"], fault["error"]) for fault in faults.last] == [("target-3", "OSError")]
