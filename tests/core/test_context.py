"""Nothing that a decoder, its boards or a server's sessions do grows with the context."""

from collections.abc import Callable
from functools import partial

import pytest

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import DSI, SI, Decoder, NonSI, Plan, Request
from dsi_ray.core.messages import Role, ServerId
from dsi_ray.core.path import Path
from dsi_ray.experiments.virtual.virtual_time import VirtualDriver, VirtualModel
from tests.core.counting import allocated, operations

LENGTHS = 64, 8192, 65536
TOKENS = 24
TARGETS = [ServerId(Role.TARGET, i) for i in range(3)]
DRAFTER = ServerId(Role.DRAFTER, 0)
DECODERS = {
    "non-si": NonSI,
    "si": partial(SI, lookahead=3),
    "dsi": partial(DSI, plan=Plan(2, 8)),
}


def decoding(make: Callable[[Request], Decoder], length: int) -> Callable[[], object]:
    """All events of a text behind a prompt of ``length`` tokens; some drafts are rejected."""
    prompt = Path.of(i % 9 for i in range(length))
    request = Request("", prompt, StopCriteria(TOKENS), TARGETS, [DRAFTER])
    target = VirtualModel(lambda path: (len(path) - length) % 5, lambda step: 10)
    drafter = VirtualModel(lambda path: (len(path) - length) % 6 % 5, lambda step: 2)
    return VirtualDriver(make(request), {**dict.fromkeys(TARGETS, target), DRAFTER: drafter})


@pytest.mark.parametrize("make", DECODERS.values(), ids=DECODERS)
def test_a_text_costs_the_same_behind_any_prompt(make: Callable[[Request], Decoder]) -> None:
    counts = [operations(decoding(make, length)) for length in LENGTHS]
    assert max(counts) < 1.01 * min(counts)
    sizes = [allocated(decoding(make, length)) for length in LENGTHS]
    # A copy of the longest prompt would take 8 bytes a token.
    assert max(sizes) < min(sizes) + 2 * max(LENGTHS)
