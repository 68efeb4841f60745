"""Finding: the result of one check."""

import enum
from typing import NamedTuple


class FindingState(enum.StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """It works, perhaps not well."""

    FAILED = "failed"


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        check: What was looked at.
        state: How it ended.
        detail: What is there.
        action: What to do; empty where all is well.
    """

    check: str
    state: FindingState
    detail: str
    action: str = ""


def finding(
    check: str, is_ok: bool, detail: str, action: str, otherwise: FindingState = FindingState.FAILED
) -> Finding:
    """A finding that has an action only where it is needed."""
    return (
        Finding(check, FindingState.OK, detail)
        if is_ok
        else Finding(check, otherwise, detail, action)
    )
