"""What ends a process, and what passes."""

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dsi_ray.runtime.process.fatal import die, fatal_errors, supervise

_SPAWN = multiprocessing.get_context("forkserver")
_WENT_ON = 3


def fail() -> None:
    raise LookupError("a stray exception")


async def fail_later() -> None:
    await asyncio.sleep(0)
    fail()


@fatal_errors("a function")
def decorated() -> None:
    fail()


def in_a_block() -> None:
    with fatal_errors("a block", ValueError):
        fail()


def in_a_thread() -> None:
    with ThreadPoolExecutor(1) as executor:
        supervise(executor.submit(fail), "a thread")


def in_a_task() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(fail_later())
        supervise(task, "a task")
        await asyncio.wait([task])
        await asyncio.sleep(0)

    asyncio.run(scenario())


def by_itself() -> None:
    die("a rank has ended")


def what_is_understood() -> None:
    with pytest.raises(LookupError), fatal_errors("a block", LookupError):
        fail()


def cancellation() -> None:
    async def scenario() -> None:
        with fatal_errors("a block"):
            task = asyncio.create_task(fail_later())
            supervise(task, "a task")
            task.cancel()
            await asyncio.wait([task])
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())


def run_in_child(call: Callable[[], None], log: Path) -> None:
    with log.open("w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    call()
    os._exit(_WENT_ON)


@pytest.mark.parametrize("call", [decorated, in_a_block, in_a_thread, in_a_task, by_itself])
def test_the_process_ends_and_the_log_says_why(call: Callable[[], None], tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = _SPAWN.Process(target=run_in_child, args=(call, log))
    child.start()
    child.join()
    assert child.exitcode == 1
    text = log.read_text()
    assert ": the process ends" in text
    assert ("LookupError: a stray exception" in text) == (call is not by_itself)


@pytest.mark.parametrize("call", [what_is_understood, cancellation])
def test_what_passes(call: Callable[[], None]) -> None:
    call()
