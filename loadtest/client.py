"""Sends a request over HTTP and watches its answer come."""

import asyncio
from collections.abc import AsyncIterator

import httpx

from loadtest.clock import Clock
from loadtest.record import Record
from loadtest.request import Request
from loadtest.stream import Stream

_MAX_DETAIL = 300


class Client:
    """Streams answers of one server.

    Args:
        http: With the server's address and key, and without limits of its own.
        timeout_s: Longest wait for a whole answer.
    """

    def __init__(self, http: httpx.AsyncClient, timeout_s: float) -> None:
        self._http = http
        self._timeout_s = timeout_s

    async def send(self, request: Request, scheduled: float, clock: Clock, point: str) -> Record:
        """Returns what became of a request that should have been sent at ``scheduled``.

        It does not raise: failures are part of the record. Nothing is tried again.
        """
        sent = clock.now()
        stream = Stream()
        response: httpx.Response | None = None
        failure: tuple[str, str] | None = None
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._http.stream("POST", request.path, json=request.body) as response,
            ):
                failure = await _receive(response, stream, clock)
        except TimeoutError:
            failure = ("timeout", f"no end after {self._timeout_s:g} s")
        except httpx.RequestError as error:
            failure = ("connection" if response is None else "broken_stream", repr(error))
        kind, detail = failure or (None, None)
        return Record(
            point=point,
            index=request.index,
            scheduled_s=scheduled,
            sent_s=sent,
            chunks_s=tuple(stream.chunks_s),
            end_s=clock.now() if failure or stream.end_s is None else stream.end_s,
            prompt_tokens=stream.prompt_tokens,
            completion_tokens=stream.completion_tokens,
            finish_reason=stream.finish_reason,
            drafts=stream.drafts,
            status=None if response is None else response.status_code,
            error=kind,
            detail=detail and detail[:_MAX_DETAIL],
            retry_after_s=None if response is None else _retry_after(response),
        )


async def _receive(
    response: httpx.Response, stream: Stream, clock: Clock
) -> tuple[str, str] | None:
    """Reads the whole answer; returns kind and detail of a failure."""
    if response.status_code != httpx.codes.OK:
        body = await response.aread()
        return f"http_{response.status_code}", body.decode(errors="replace")
    async for line in _lines(response):
        stream.feed(line, clock.now())
    stream.close()
    return stream.failure


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """Yields lines. httpx's own would also break them at characters that JSON may hold."""
    rest = b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds; a date, which the header may hold too, is not told apart from nothing."""
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
