"""Death is loud: an exception that nobody understands ends the process.

Whoever supervises the process builds it again: the coordinator its servers, the keeper a group,
Ray Serve the ingress and the keeper's host. What went on instead would look healthy and hang.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from typing import NoReturn, TypeVar

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)


def die(what: str, error: BaseException | None = None) -> NoReturn:
    """Logs what went wrong, with its traceback, and ends the process at once."""
    try:
        _LOGGER.critical("%s: the process ends", what, exc_info=error)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(1)


@contextlib.contextmanager
def fatal_errors(what: str, *understood: type[Exception]) -> Iterator[None]:
    """Ends the process on an exception inside the block, or in the function that this decorates.

    Cancellation passes, and what is understood. A decorated coroutine function would not be
    guarded beyond the call that makes the coroutine.
    """
    try:
        yield
    except understood:
        raise
    except Exception as error:
        die(what, error)


def supervise(task: "asyncio.Task[T] | Future[T]", what: str) -> None:
    """Ends the process if a task, or a thread's work, ends with an exception."""
    task.add_done_callback(lambda done: _check(done, what))


def _check(done: "asyncio.Task[T] | Future[T]", what: str) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None:
        die(what, error)
