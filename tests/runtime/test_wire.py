"""What crosses a process is what was sent."""

from dsi_ray.core.messages import Mode, Output, Role, ServerId, Task
from dsi_ray.core.path import Path
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.transport.work import Work, pack_events, pack_work, unpack_events, unpack_work

PROPOSALS = (b"", bytes(range(256)))
SAMPLING = Sampling(SamplingParams(temperature=1), 1, rejection=True)


def test_a_task_keeps_its_proposals() -> None:
    server = ServerId(Role.TARGET, 0)
    task = Task(1, "request", server, Path.of((1, 2)), 1, proposals=PROPOSALS)
    work = Work([(task, Mode.QUEUE, SAMPLING)], [("other", 4)], ["third"])
    assert unpack_work(pack_work(work)) == work


def test_drafts_keep_theirs() -> None:
    output = Output(1, 2, (3, 4), goes_on=True, proposals=PROPOSALS)
    assert unpack_events(pack_events([output])) == [output]
