"""Forwards: the thread in which a model server computes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from dsi_ray.core.messages import Ended, Event, Mode, Reason, Task
from dsi_ray.core.session import ServerSession, Step
from dsi_ray.models.base import ForwardCancelled, LanguageModel, Sampling

R = TypeVar("R")

_PAUSE_S = 0.0001


@dataclass(slots=True)
class _Session:
    sampling: Sampling
    state: ServerSession = field(default_factory=ServerSession)


class Forwards:
    """Computes the forwards of all requests, one at a time.

    Its thread goes from one forward to the next by itself: a server that goes on alone does not
    wait for an event loop between two tokens.

    Args:
        name: Of the thread.
        listener: Hears, in any thread and in order, what happened and whether anybody waits for it.
    """

    def __init__(self, name: str, listener: Callable[[list[Event], bool], None]) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        """Of all below; never held during a forward."""
        self._sessions: dict[str, _Session] = {}
        self._released: list[str] = []
        self._computing: _Session | None = None
        self._working = False
        self._stop = threading.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._model: LanguageModel

    def start(self, load: Callable[[], LanguageModel]) -> "Future[LanguageModel]":
        """Loads the model; everything else comes after it.

        In the thread of the forwards: the number of torch threads is a thread's own.
        """

        def run() -> LanguageModel:
            self._model = load()
            return self._model

        return self._executor.submit(run)

    def run(self, function: Callable[[LanguageModel], R]) -> "Future[R]":
        """Lends the model while there are no requests."""
        return self._executor.submit(lambda: function(self._model))

    @property
    def busy(self) -> int:
        """How many requests have work here."""
        with self._lock:
            return sum(not session.state.idle for session in self._sessions.values())

    def submit(self, task: Task, mode: Mode, sampling: Sampling) -> None:
        """Takes a task in."""
        with self._lock:
            session = self._sessions.get(task.request)
            if session is None:
                session = self._sessions[task.request] = _Session(sampling)
            self._take(session, session.state.submit(task, mode))

    def cancel(self, request: str, task: int) -> None:
        """Ends a task and stops its forward at the next layer; an unknown one is fine."""
        with self._lock:
            session = self._sessions.get(request)
            if session is not None:
                self._take(session, session.state.cancel(task))

    def release(self, request: str) -> None:
        """Forgets a request, whose tasks have ended."""
        with self._lock:
            self._sessions.pop(request, None)
            self._released.append(request)
            self._wake()

    def _take(self, session: _Session, events: list[Event]) -> None:
        """Passes events on and lets the thread see what has changed."""
        if session.state.interrupted and self._computing is session:
            self._stop.set()
        self._listener(events, session.state.idle or not all(map(_can_wait, events)))
        self._wake()

    def _wake(self) -> None:
        if not self._working:
            self._working = True
            self._executor.submit(self._work)

    def _work(self) -> None:
        """Computes until nothing is left."""
        while (job := self._next_job()) is not None:
            self._compute(*job)
            # Gives the interpreter to the event loop, which has news now; it would otherwise wait
            # until the next forward lets go of it.
            time.sleep(_PAUSE_S)

    def _next_job(self) -> tuple[str, _Session, Step] | None:
        """The next forward; the requests take turns."""
        with self._lock:
            released, self._released = self._released, []
            for request in released:
                # Here, since a model is used by one thread at a time.
                self._model.release(request)
            for request, session in self._sessions.items():
                step = session.state.next_step()
                if step is not None:
                    self._sessions[request] = self._sessions.pop(request)
                    self._stop.clear()
                    self._computing = session
                    return request, session, step
            self._working = False
            return None

    def _compute(self, request: str, session: _Session, step: Step) -> None:
        started = time.perf_counter()
        try:
            forwarded = self._model.extend(
                request, step.tokens, step.start, session.sampling, self._stop
            )
        except ForwardCancelled:
            with self._lock:
                self._computing = None
                session.state.stopped()
        except Exception as error:
            # A request's error is its own: the server goes on with the others.
            with self._lock:
                self._computing = None
                self._take(session, session.state.fail(f"{type(error).__name__}: {error}"))
        else:
            seconds = time.perf_counter() - started
            with self._lock:
                self._computing = None
                self._take(
                    session, session.state.finish(forwarded.tokens, seconds, forwarded.logprobs)
                )


def _can_wait(event: Event) -> bool:
    """Whether the coordinator knows already, having caused it: it travels with the next output."""
    return isinstance(event, Ended) and event.reason in (Reason.REPLACED, Reason.DROPPED)
