"""Hundreds of requests to a server that has room for some of them: whole, streamed and given up."""

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar, cast

import httpx
import openai
import pytest

from dsi_ray.runtime.client.engine import Engine
from dsi_ray.serving.api import build_api
from dsi_ray.serving.config import ServingConfig

from .asgi import until
from .valve import ValveEngine

T = TypeVar("T")
REQUESTS = 500
TOKENS = 30


class Site:
    """A server and its clients, without a network between."""

    def __init__(self, keys: Iterable[str] = (), **settings: Any) -> None:
        self.engine = ValveEngine()
        config = ServingConfig.model_validate({"served_model_name": "valve", **settings})
        digests = {hashlib.sha256(key.encode()).digest() for key in keys}
        self.app = build_api(cast(Engine, self.engine), config, digests)

    def client(self, host: str = "10.0.0.1") -> httpx.AsyncClient:
        """A client at an address."""
        transport = httpx.ASGITransport(self.app, client=(host, 1))
        return httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60)

    async def ask(
        self, number: int, host: str = "10.0.0.1", key: str = "-", **fields: Any
    ) -> httpx.Response:
        """Sends the request of this number; every second one is streamed."""
        body = {
            "model": "valve",
            "prompt": [number % 50],
            "max_tokens": TOKENS,
            "stream": number % 2 == 1,
            **fields,
        }
        async with self.client(host) as client:
            headers = {"authorization": f"Bearer {key}"}
            return await client.post("/v1/completions", json=body, headers=headers)

    async def load(self) -> dict[str, int]:
        """How full the server says that it is, which must not make it look ill."""
        async with self.client() as client:
            health = await client.get("/health")
        assert health.status_code == 200
        load: dict[str, int] = health.json()["load"]
        return load

    async def holds(self, generations: int, waiting: int) -> None:
        """Lets tasks run until so much is inside and waits."""
        for _ in range(10_000):
            load = await self.load()
            if (load["generations"], load["queued_requests"]) == (generations, waiting):
                return
            await asyncio.sleep(0)
        raise AssertionError(f"it never came to that: {load}")

    def check_answer(self, number: int, answer: httpx.Response) -> None:
        """All of its text, or a refusal that says when to come back."""
        if answer.status_code != 200:
            assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
            assert int(answer.headers["retry-after"]) >= 1
            return
        assert text_of(answer) == self.engine.text([number % 50], TOKENS)


def text_of(answer: httpx.Response) -> str:
    """The text of an answer, whole or streamed."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return str(answer.json()["choices"][0]["text"])
    *events, done, end = answer.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    parts = [json.loads(event.removeprefix("data: ")) for event in events]
    return "".join(choice["text"] for part in parts for choice in part["choices"])


def run(site: Site, scenario: Coroutine[Any, Any, T]) -> T:
    """Runs a scenario; afterwards nothing may be left."""

    async def all_of_it() -> T:
        result = await scenario
        load = await site.load()
        assert (load["generations"], load["tokens"], load["queued_requests"]) == (0, 0, 0)
        assert site.engine.running == 0
        return result

    return asyncio.run(all_of_it())


def test_twice_as_many_as_there_is_room_for() -> None:
    site = Site(max_requests=100, max_queued_requests=150)

    async def scenario() -> list[httpx.Response]:
        answers: list[httpx.Response] = []

        async def one(number: int) -> httpx.Response:
            answers.append(answer := await site.ask(number))
            return answer

        tasks = [asyncio.create_task(one(number)) for number in range(REQUESTS)]
        # Nothing ends meanwhile: all that do not fit are turned away, and only those.
        await until(lambda: len(answers) == 250)
        load = await site.load()
        assert (load["generations"], load["queued_requests"]) == (100, 150)
        assert load["tokens"] == 100 * (1 + TOKENS)
        site.engine.valve.set()
        return await asyncio.gather(*tasks)

    answers = run(site, scenario())
    assert Counter(answer.status_code for answer in answers) == {200: 250, 503: 250}
    assert site.engine.peak == 100
    for number, answer in enumerate(answers):
        site.check_answer(number, answer)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_goes_and_gives_up(seed: int) -> None:
    site = Site(max_requests=4, max_queued_requests=8, max_requests_per_client=4)
    site.engine.valve.set()
    rng = random.Random(seed)

    async def visit(number: int) -> httpx.Response | None:
        for _ in range(rng.randrange(1000)):
            await asyncio.sleep(0)
        asking = asyncio.create_task(site.ask(number, f"10.0.0.{number % 5}"))
        if rng.random() < 0.3:
            for _ in range(rng.randrange(60)):
                await asyncio.sleep(0)
            asking.cancel()
        with suppress(asyncio.CancelledError):
            return await asking
        return None

    async def scenario() -> list[httpx.Response | None]:
        return await asyncio.gather(*(visit(number) for number in range(200)))

    answers = run(site, scenario())
    seen = Counter(None if answer is None else answer.status_code for answer in answers)
    assert seen.keys() == {None, 200, 429, 503}
    assert site.engine.peak == 4
    for number, answer in enumerate(answers):
        if answer is not None:
            site.check_answer(number, answer)


def test_one_greedy_client_does_not_keep_the_others_out() -> None:
    site = Site(max_requests=1, max_queued_requests=400)

    async def scenario() -> list[str]:
        order: list[str] = []

        async def one(number: int, host: str) -> None:
            assert (await site.ask(number, host)).status_code == 200
            order.append(host)

        tasks = [asyncio.create_task(one(number, "greedy")) for number in range(100)]
        await site.holds(1, 99)
        tasks += [asyncio.create_task(one(number, f"host-{number}")) for number in range(3)]
        await site.holds(1, 102)
        site.engine.valve.set()
        await asyncio.gather(*tasks)
        return order

    order = run(site, scenario())
    assert {"host-0", "host-1", "host-2"} < set(order[:6])


def test_a_client_s_own_limit_is_openai_s_rate_limit_error() -> None:
    site = Site(max_requests=4, max_requests_per_client=2)

    async def scenario() -> openai.RateLimitError:
        tasks = [asyncio.create_task(site.ask(number)) for number in range(2)]
        await until(lambda: site.engine.running == 2)
        async with openai.AsyncOpenAI(
            base_url="http://server/v1", api_key="-", http_client=site.client(), max_retries=0
        ) as client:
            with pytest.raises(openai.RateLimitError) as caught:
                await client.completions.create(model="valve", prompt="a", stream=True)
        other = asyncio.create_task(site.ask(2, "10.0.0.2"))
        await until(lambda: site.engine.running == 3)
        site.engine.valve.set()
        for answer in await asyncio.gather(*tasks, other):
            assert answer.status_code == 200
        return caught.value

    error = run(site, scenario())
    assert (error.code, error.type) == ("rate_limit_exceeded", "requests")
    assert int(error.response.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("keys", "second", "clients"),
    [
        ((), {"host": "10.0.0.2"}, 2),
        ((), {"user": "somebody else"}, 1),
        ((), {"key": "b"}, 1),
        ("ab", {"key": "b"}, 2),
        ("ab", {"host": "10.0.0.2"}, 1),
    ],
)
def test_a_client_is_a_key_or_without_keys_an_address(
    keys: Iterable[str], second: dict[str, str], clients: int
) -> None:
    site = Site(keys)

    async def scenario() -> int:
        requests = [{"number": 0, "key": "a"}, {"number": 0, "key": "a", **second}]
        tasks = [asyncio.create_task(site.ask(**request)) for request in requests]
        await until(lambda: site.engine.running == 2)
        load = await site.load()
        site.engine.valve.set()
        await asyncio.gather(*tasks)
        return load["clients"]

    assert run(site, scenario()) == clients


def test_each_choice_counts() -> None:
    site = Site(max_requests=3, max_queued_requests=0)

    async def scenario() -> list[int]:
        large = asyncio.create_task(site.ask(0, n=4))
        await until(lambda: site.engine.running == 4)
        turned_away = await site.ask(1)
        site.engine.valve.set()
        return [turned_away.status_code, (await large).status_code]

    # Larger than the limit, but alone.
    assert run(site, scenario()) == [503, 200]


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_that_passes_in_the_queue_is_503_and_later_504(stream: bool) -> None:
    site = Site(max_requests=1, request_timeout_s=0.3)

    async def scenario() -> list[httpx.Response]:
        tasks = []
        # The last one of b goes before the last one of a, whose deadline comes first.
        for waiting, host in enumerate("aaab"):
            tasks.append(asyncio.create_task(site.ask(0, host, stream=stream)))
            await site.holds(1, waiting)
        for task in tasks[:2]:
            task.cancel()
        return await asyncio.gather(*tasks[2:])

    queued, begun = run(site, scenario())
    assert (queued.status_code, queued.json()["error"]["code"]) == (503, "overloaded")
    assert int(queued.headers["retry-after"]) >= 1
    assert (begun.status_code, begun.json()["error"]["code"]) == (504, "timeout")


def test_what_is_turned_away_is_counted() -> None:
    site = Site(max_requests=1, max_queued_requests=0)

    async def scenario() -> str:
        first = asyncio.create_task(site.ask(0))
        await until(lambda: site.engine.running == 1)
        assert (await site.ask(1)).status_code == 503
        site.engine.valve.set()
        await first
        async with site.client() as client:
            return (await client.get("/metrics")).text

    metrics = run(site, scenario())
    assert 'dsi_ray_refused_requests_total{ingress="0",reason="queue_full"} 1.0' in metrics
    assert 'dsi_ray_queued_requests{ingress="0"} 0.0' in metrics
    assert 'dsi_ray_queue_wait_seconds_count{ingress="0"} 1.0' in metrics
