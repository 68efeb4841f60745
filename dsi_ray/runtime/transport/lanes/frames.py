"""What travels on lanes, typed: msgpack by msgspec, never pickle.

Token ids of paths are arrays of int32, little-endian. A path travels as what its receiver lacks: a
base, which is the beginning of the last path that it got for the request, and the tokens after it.
"""

import sys
from array import array
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from dsi_ray.core.messages import Ended, Mode, Output
from dsi_ray.models.base import Sampling
from dsi_ray.runtime.request import Decoding, TokenChunk
from dsi_ray.runtime.transport.lanes.lane import FrameError


class Begin(msgspec.Struct, frozen=True, array_like=True):
    """A task to run; the fields are those of :class:`Task`.

    Attributes:
        base: How many tokens of the last path that the server got for the request begin this one.
        digest: Of these, so that both ends mean the same; 0 where there are none.
        rest: The tokens after them.
        sampling: How the request's tokens are chosen, with its first task.
    """

    task: int
    request: str
    mode: Mode
    base: int
    digest: int
    rest: bytes
    start: int
    limit: int
    stops: frozenset[int]
    report: int
    proposals: tuple[bytes, ...]
    sampling: Sampling | None


class WorkFrame(msgspec.Struct, frozen=True, array_like=True, tag="work"):
    """To a server: all that the coordinator has for it at one moment; see :class:`Work`."""

    starts: list[Begin]
    cancels: list[tuple[str, int]]
    releases: list[str]


class Ping(msgspec.Struct, frozen=True, array_like=True, tag="ping"):
    """To any end: to be answered at once."""

    number: int


class Pong(msgspec.Struct, frozen=True, array_like=True, tag="pong"):
    """The answer."""

    number: int


class EventsFrame(msgspec.Struct, frozen=True, array_like=True, tag="events"):
    """From a server: what happened, in order; of each pair one is set."""

    events: list[tuple[Output | None, Ended | None]]


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag="unknown"):
    """From a server: these tasks build on a base that it has not; it wants them whole."""

    tasks: list[int]


class Submit(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    """To a coordinator: a request; see :class:`Generation`.

    Attributes:
        ticket: Of this submission: two requests may be given one id.
        request: The id.
        prompt: int32.
        stop_ids: As in the request, like all else.
    """

    ticket: str
    request: str
    prompt: bytes
    stop_ids: frozenset[int]
    sampling: Sampling
    decoding: Decoding


class Abandon(msgspec.Struct, frozen=True, array_like=True, tag="abandon"):
    """To a coordinator: nobody waits for what was submitted with this ticket any more."""

    ticket: str


class StopFrame(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """To a coordinator: this request's text is complete."""

    request: str


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """A request's end by an error, with the field that is to blame, if one is."""

    error: str
    param: str | None


class Deliveries(msgspec.Struct, frozen=True, array_like=True, tag="deliveries"):
    """From a coordinator: what requests get, by ticket and in order; of each pair one is set."""

    items: list[tuple[str, TokenChunk | None, Failure | None]]


ToServer = WorkFrame | Ping
FromServer = EventsFrame | Unknown | Pong
ToCoordinator = Submit | Abandon | StopFrame
FromCoordinator = Deliveries

F = TypeVar("F")

_encoder = msgspec.msgpack.Encoder()
pack = _encoder.encode


def unpacker(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Reads frames of one kind; :func:`unpack` with it."""
    return msgspec.msgpack.Decoder(kind)


def unpack(decoder: "msgspec.msgpack.Decoder[F]", payload: bytes) -> F:
    """The frame in a payload.

    Raises:
        FrameError: There is none of the expected kind in it.
    """
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FrameError(f"not a frame: {error}") from error


def pack_ids(tokens: Sequence[int]) -> bytes:
    """Token ids as int32."""
    ids = array("i", tokens)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()


def unpack_ids(data: bytes) -> tuple[int, ...]:
    """The reverse of :func:`pack_ids`.

    Raises:
        FrameError: The number of bytes is not one of whole ids.
    """
    ids = array("i")
    try:
        ids.frombytes(data)
    except ValueError as error:
        raise FrameError(f"{len(data)} bytes are not whole token ids") from error
    if sys.byteorder == "big":
        ids.byteswap()
    return tuple(ids)
