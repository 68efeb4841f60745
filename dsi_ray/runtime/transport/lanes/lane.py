"""Lane: a connection between two of our processes, for frames both ways.

A frame is its length in four bytes and its payload. The reading end sits in an event loop; any
thread may send. Nothing here blocks: what the other end does not read waits here, up to a limit.
"""

import asyncio
import socket
import threading
from collections.abc import Callable

from dsi_ray.runtime.process.background import call_soon
from dsi_ray.runtime.process.fatal import fatal_errors

MAX_FRAME = 64 * 2**20
"""Bytes of a payload: a prompt of a million tokens is 4 MB, a distribution of a draft 1 MB."""

MAX_UNSENT = 64 * 2**20
"""Bytes that wait for a reader, about what a hundred thousand tasks take."""

_LENGTH_BYTES = 4
_TURN_BYTES = 256 * 1024
"""Most that is read or written at a turn of the event loop: a flood leaves turns to others."""


class LaneEnded(ConnectionError):
    """The lane is gone: the other process died, closed it, does not read, or breaks the rules."""


class FrameError(LaneEnded):
    """The other end sent what is no frame."""


class Lane:
    """One end of a connection.

    Args:
        connection: A stream socket, from now on this lane's.
        on_frame: Called in the event loop with each payload; a `FrameError` ends the lane.

    Attributes:
        end: Done, with the reason, once the lane has ended and nothing more will be passed on.
    """

    def __init__(self, connection: socket.socket, on_frame: Callable[[bytes], None]) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._on_frame = on_frame
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._lock = threading.Lock()
        """Over what follows, and over writing to the socket."""
        self._unsent = bytearray()
        self._error: LaneEnded | None = None
        self.end: asyncio.Future[LaneEnded] = self._loop.create_future()
        self._loop.add_reader(connection, self._read)

    def send(self, payload: bytes) -> None:
        """Sends a frame, from any thread, at once or as soon as there is room.

        After the lane's end it does nothing: :attr:`end` tells. A payload beyond `MAX_FRAME`,
        and more than `MAX_UNSENT` bytes that nobody reads, end the lane.
        """
        frame = len(payload).to_bytes(_LENGTH_BYTES, "little") + payload
        with self._lock:
            if self._error is not None:
                return
            if len(payload) > MAX_FRAME:
                self._fail(LaneEnded(f"a frame of {len(payload)} bytes: at most {MAX_FRAME}"))
                return
            if self._unsent:
                self._unsent += frame
            elif rest := self._write(frame):
                self._unsent += rest
                call_soon(self._loop, self._wait_for_room)
            if len(self._unsent) > MAX_UNSENT:
                self._fail(LaneEnded(f"nobody reads: {len(self._unsent)} bytes wait"))

    def close(self) -> None:
        """Ends the lane; what waits to be sent is dropped."""
        with self._lock:
            self._fail(LaneEnded("closed at this end"))

    def _fail(self, error: LaneEnded) -> None:
        """Ends the lane for a reason, the first that there is. The lock is held."""
        if self._error is None:
            self._error = error
            self._unsent.clear()
            call_soon(self._loop, self._finish)

    @fatal_errors("a lane")
    def _finish(self) -> None:
        """In the event loop: so that no other thread's number of a closed socket is reused."""
        with self._lock:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
        assert self._error is not None, "a lane ends for a reason"
        self.end.set_result(self._error)

    @fatal_errors("a lane")
    def _read(self) -> None:
        if self._error is not None:
            return
        try:
            data = self._socket.recv(_TURN_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(LaneEnded(f"connection lost: {error}"))
            return
        if not data:
            self._lose(LaneEnded("closed at the other end"))
            return
        self._received += data
        try:
            self._pass_on()
        except FrameError as error:
            self._lose(error)

    def _pass_on(self) -> None:
        """Calls with every frame that is there as a whole."""
        begin = 0
        while self._error is None and len(self._received) - begin >= _LENGTH_BYTES:
            first = begin + _LENGTH_BYTES
            length = int.from_bytes(self._received[begin:first], "little")
            if length > MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes: at most {MAX_FRAME}")
            if len(self._received) < first + length:
                break
            begin = first + length
            self._on_frame(bytes(self._received[first:begin]))
        del self._received[:begin]

    def _write(self, frame: bytes) -> bytes:
        """Writes what there is room for; returns the rest. The lock is held."""
        try:
            return frame[self._socket.send(frame) :]
        except (BlockingIOError, InterruptedError):
            return frame
        except OSError as error:
            self._fail(LaneEnded(f"connection lost: {error}"))
            return b""

    @fatal_errors("a lane")
    def _wait_for_room(self) -> None:
        if self._error is None:
            self._loop.add_writer(self._socket, self._write_on)

    @fatal_errors("a lane")
    def _write_on(self) -> None:
        with self._lock:
            piece = bytes(self._unsent[:_TURN_BYTES])
            del self._unsent[: len(piece) - len(self._write(piece))]
            if not self._unsent:
                self._loop.remove_writer(self._socket)

    def _lose(self, error: LaneEnded) -> None:
        with self._lock:
            self._fail(error)
