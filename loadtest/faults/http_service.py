"""A dsi-ray server on this machine, asked by the openai client while its processes die."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx

from loadtest.errors import LoadTestError
from loadtest.faults.chaos import Group, Victim, processes, prompt

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_HEALTH_S = 5.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class HttpService:
    """A server whose processes are those of this machine.

    Args:
        http: Asks for its health.
        client: Sends the requests, and sends those again that failed.
        model: What the server calls its model.

    """

    def __init__(self, http: httpx.AsyncClient, client: "AsyncOpenAI", model: str) -> None:
        self._http = http
        self._client = client
        self._model = model

    @property
    def name(self) -> str:
        """Its address."""
        return str(self._http.base_url)

    async def text(self, number: int, tokens: int) -> tuple[str | None, bool]:
        """The text of a request, and whether it was sent again."""
        from openai import APIError

        try:
            answer = await self._client.completions.with_raw_response.create(
                model=self._model,
                prompt=prompt(number),
                max_tokens=tokens,
                temperature=0,
                extra_body={"ignore_eos": True},
            )
        except APIError:
            return None, True
        return answer.parse().choices[0].text, answer.retries_taken > 0

    async def groups(self) -> Sequence[Group]:
        """The status of each group."""
        groups: Sequence[Group] = (await self._health()).get("groups", ())
        return groups

    async def victims(self) -> Sequence[Victim]:
        """Its processes; of several ingresses only the one that answers."""
        health = await self._health()
        if not health:
            return ()
        return [Victim("ingress", (health["ingress"]["pid"],)), *processes(health["groups"])]

    async def _health(self) -> dict[str, Any]:
        return await _health(self._http)


async def _health(http: httpx.AsyncClient) -> dict[str, Any]:
    """What ``/health`` says; empty if nobody answers, as what was killed last still starts."""
    try:
        health: dict[str, Any] = (await http.get("/health", timeout=_HEALTH_S)).json()
    except (httpx.HTTPError, ValueError):
        return {}
    return health if {"groups", "ingress"} <= health.keys() else {}


def check_local(http: httpx.AsyncClient) -> None:
    """Makes sure that the server's processes are those of this machine.

    Raises:
        LoadTestError: They are not.
    """
    if http.base_url.host not in _LOOPBACK:
        raise LoadTestError(
            f"{http.base_url}: processes can be killed on this machine only: serve on 127.0.0.1"
        )


async def check_names_processes(http: httpx.AsyncClient) -> None:
    """Makes sure that the server says which processes it has.

    Raises:
        LoadTestError: It does not.
    """
    if not await _health(http):
        url = http.base_url.join("health")
        raise LoadTestError(f"{url} names no processes: is that a healthy dsi-ray server?")


def openai_client(http: httpx.AsyncClient, api_key: str | None, retries: int) -> "AsyncOpenAI":
    """The client that people use. No other part of the load test needs its package.

    Raises:
        LoadTestError: It is not installed.
    """
    try:
        from openai import AsyncOpenAI
    except ImportError:
        raise LoadTestError("chaos needs the openai client: pip install openai") from None
    url = str(http.base_url.join("v1"))
    return AsyncOpenAI(base_url=url, api_key=api_key or "none", max_retries=retries)
