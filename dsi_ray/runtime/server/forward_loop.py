"""Forwards: the thread in which a model server computes."""

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from dsi_ray.core.messages import Ended, EndReason, Event
from dsi_ray.core.server.scheduler import ScheduledRequest, ScheduledResult, Scheduler
from dsi_ray.models.base import (
    DeviceLost,
    Extension,
    ForwardCancelled,
    Forwarded,
    LanguageModel,
    NoRoom,
    RequestTooHard,
    Sampling,
)
from dsi_ray.runtime.process.fatal import fatal_errors
from dsi_ray.runtime.transport.work import Work

R = TypeVar("R")


class ForwardLoop:
    """Computes the forwards of all requests, one at a time, each for all that have work.

    Its thread goes from one forward to the next by itself: a server that goes on alone does not
    wait for an event loop between two tokens.

    Args:
        name: Of the thread.
        chunk: Most tokens of prefill in a forward.

    Attributes:
        listener: Hears, in any thread but one at a time and in order, what happened.
    """

    def __init__(self, name: str, chunk: int) -> None:
        self.listener: Callable[[list[Event]], None]
        self._unheard: list[Event] = []
        """Nobody waits for these: they travel with what somebody does."""
        self._lock = threading.Lock()
        """Of all below; never held during a forward."""
        self._batch = Scheduler(chunk)
        self._samplings: dict[str, Sampling] = {}
        self._released: list[str] = []
        self._probes: list[Future[None]] = []
        self._working = False
        self._stop = threading.Event()
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """What the thread is to do: it takes a third of the time of an executor to be woken."""
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self._model: LanguageModel

    def start(self, load: Callable[[], LanguageModel]) -> "Future[LanguageModel]":
        """Loads the model; everything else comes after it.

        In the thread of the forwards: the number of torch threads is a thread's own.
        """

        def run() -> LanguageModel:
            self._model = load()
            return self._model

        return self._submit(run)

    def run(self, function: Callable[[LanguageModel], R]) -> "Future[R]":
        """Lends the model while there are no requests."""
        return self._submit(lambda: function(self._model))

    def _submit(self, function: Callable[[], R]) -> "Future[R]":
        future: Future[R] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put(call)
        return future

    @fatal_errors("the forwards")
    def _run(self) -> None:
        while True:
            self._calls.get()()

    @property
    def busy(self) -> int:
        """How many requests have work here."""
        with self._lock:
            return self._batch.busy

    def probe(self) -> "Future[None]":
        """Done as soon as no forward that is under way now still is."""
        probe: Future[None] = Future()
        with self._lock:
            self._probes.append(probe)
            self._wake()
        return probe

    def take(self, work: Work) -> None:
        """Takes in what there is at one moment: new tasks, then cancellations, then releases.

        Unknown tasks and requests are fine. A forward of which nobody needs anything any more
        stops at its next layer.
        """
        with self._lock:
            events: list[Event] = []
            for task, mode, sampling in work.starts:
                self._samplings[task.request] = sampling
                events += self._batch.submit(task, mode)
            for request, cancelled in work.cancels:
                events += self._batch.cancel(request, cancelled)
            for request in work.releases:
                self._release(request)
            self._pass_on(events, work.requests)

    def abort(self, request: str) -> None:
        """Ends all tasks of a request; an unknown one is fine."""
        with self._lock:
            self._pass_on(self._batch.abort(request), [request])

    def clear(self) -> None:
        """Ends all tasks and forgets all requests."""
        with self._lock:
            requests = self._batch.requests
            events = [event for request in requests for event in self._batch.abort(request)]
            self._pass_on(events, requests)
            for request in requests:
                self._release(request)

    def _release(self, request: str) -> None:
        self._batch.release(request)
        self._samplings.pop(request, None)
        self._released.append(request)

    def _pass_on(self, events: list[Event], requests: Collection[str]) -> None:
        """Tells what happened and lets the thread see what has changed."""
        if self._batch.interrupted:
            self._stop.set()
        # What an idle request has to say would find no later output to travel with.
        waited_for = any(map(self._batch.is_idle, requests)) or not all(map(_can_wait, events))
        self._unheard += events
        if waited_for and self._unheard:
            unheard, self._unheard = self._unheard, []
            self.listener(unheard)
        self._wake()

    def _wake(self) -> None:
        if not self._working:
            self._working = True
            self._calls.put(self._work)

    def _work(self) -> None:
        """Computes until nothing is left."""
        while parts := self._next_parts():
            self._compute(parts)

    def _next_parts(self) -> list[tuple[ScheduledRequest, Sampling]]:
        with self._lock:
            while self._probes:
                probe = self._probes.pop()
                if probe.set_running_or_notify_cancel():
                    probe.set_result(None)
            released, self._released = self._released, []
            for request in released:
                # Here, since a model is used by one thread at a time.
                self._model.release(request)
            self._stop.clear()
            parts = self._batch.compose(self._model.cached)
            self._working = bool(parts)
            return [(part, self._samplings[part.request]) for part in parts]

    def _compute(self, parts: list[tuple[ScheduledRequest, Sampling]]) -> None:
        started = time.perf_counter()
        extensions = [
            Extension(part.request, part.tokens, part.start, sampling, part.step.proposals)
            for part, sampling in parts
        ]
        try:
            outcomes = self._model.extend(extensions, self._stop)
        except ForwardCancelled:
            with self._lock:
                self._batch.stopped()
            return
        except DeviceLost:
            # Nothing more can be computed here: the process ends.
            raise
        except Exception as error:
            # The requests' error: the server goes on with others.
            outcomes = [error] * len(parts)
        seconds = time.perf_counter() - started
        requests = [part.request for part, _ in parts]
        results = dict(zip(requests, map(_result, outcomes), strict=True))
        with self._lock:
            self._pass_on(self._batch.finish(results, seconds), requests)


def _result(outcome: Forwarded | Exception) -> ScheduledResult:
    if isinstance(outcome, NoRoom):
        return ScheduledResult(postponed=True)
    if isinstance(outcome, RequestTooHard):
        return ScheduledResult(error=str(outcome), param=outcome.param)
    if isinstance(outcome, Exception):
        return ScheduledResult(error=f"{type(outcome).__name__}: {outcome}")
    return ScheduledResult(outcome.tokens, outcome.logprobs, outcome.proposals)


def _can_wait(event: Event) -> bool:
    """Whether the coordinator knows already, having caused it: it travels with the next output."""
    return isinstance(event, Ended) and event.reason in (EndReason.REPLACED, EndReason.DROPPED)
