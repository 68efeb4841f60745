"""Texts are tokenized off the event loop, and nobody's texts keep the others' waiting."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from dsi_ray.serving.admission.aside import Aside
from dsi_ray.serving.client import client
from dsi_ray.serving.errors import ApiError
from dsi_ray.serving.metrics import ServiceMetrics

from .asgi import until
from .test_overload import Site


class Desk:
    """Work that lasts until the gate is open, and notes in which order it was done."""

    def __init__(self, **limits: Any) -> None:
        self.gate = threading.Event()
        self.done: list[str] = []
        self.aside = Aside(
            **{"waiting": 100, "per_client": None, **limits}, metrics=ServiceMetrics(0)
        )

    def work(self, name: str) -> str:
        self.gate.wait()
        self.done.append(name)
        return name

    async def ask(self, who: str) -> str:
        client.set(who)
        return await self.aside.run(self.work, who)


def test_clients_take_turns_and_the_loop_goes_on() -> None:
    async def crowd() -> list[str]:
        desk = Desk()
        greedy = [asyncio.create_task(desk.ask("greedy")) for _ in range(6)]
        await asyncio.sleep(0)
        others = [asyncio.create_task(desk.ask(name)) for name in ("a", "b")]
        await asyncio.sleep(0)
        desk.gate.set()
        await asyncio.gather(*greedy, *others)
        return desk.done

    assert asyncio.run(crowd()) == ["greedy", "greedy", "a", "b", *["greedy"] * 4]


@pytest.mark.parametrize(
    ("limits", "status"), [({"waiting": 2}, 503), ({"per_client": 3}, 429)], ids=str
)
def test_what_is_too_much_is_turned_away(limits: dict[str, int], status: int) -> None:
    async def crowd() -> ApiError:
        desk = Desk(**limits)
        tasks = [asyncio.create_task(desk.ask("me")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as caught:
            await desk.ask("me")
        desk.gate.set()
        assert await asyncio.gather(*tasks) == ["me"] * 3
        assert await desk.ask("me") == "me"
        return caught.value

    error = asyncio.run(crowd())
    assert error.status == status
    assert int(error.headers["retry-after"]) > 0


def test_who_leaves_holds_the_turn_until_the_work_is_over() -> None:
    """Else one that sends long texts and leaves would keep the thread for itself."""

    async def leave() -> list[str]:
        desk = Desk(per_client=1)
        task = asyncio.create_task(desk.ask("me"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ApiError):
            await desk.ask("me")
        desk.gate.set()
        await until(lambda: bool(desk.done))
        other = await desk.ask("other")
        return [await desk.ask("me"), other]

    assert asyncio.run(leave()) == ["me", "other"]


async def post(site: Site, path: str, **fields: Any) -> httpx.Response:
    async with site.client() as http:
        return await http.post(path, json={"model": "valve", **fields})


TEXT = "x" * 2000
CHAT = [{"role": "user", "content": TEXT}]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/completions", {"prompt": TEXT}, "prompt"),
        ("/v1/completions", {"prompt": ["x", TEXT]}, "prompt"),
        ("/v1/chat/completions", {"messages": CHAT}, "messages"),
        ("/tokenize", {"prompt": TEXT}, "prompt"),
        ("/tokenize", {"messages": CHAT}, "messages"),
    ],
    ids=str,
)
def test_every_path_refuses_a_text_that_cannot_fit(
    path: str, fields: dict[str, Any], param: str
) -> None:
    answer = asyncio.run(post(Site(), path, **fields))
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert (error["code"], "bytes" in error["message"]) == ("context_length_exceeded", True)
