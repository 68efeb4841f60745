"""Counting what Python code does, where a clock would also count what else the machine does."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Returns how many instructions of Python's virtual machine ``work`` takes.

    What one of them does in C is not seen: for copies see :func:`allocated`.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def allocated(work: Callable[[], object]) -> int:
    """Returns how many bytes of Python's and numpy's memory ``work`` needs at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
