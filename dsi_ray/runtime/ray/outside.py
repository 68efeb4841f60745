"""Calls of actors from outside of the task that the caller may be."""

import contextvars
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def outside(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls ``call`` in a context of its own; an asyncio task that it creates stays there.

    With a task Ray cancels, even some time later, whatever was called in its context: the stream
    of all requests with the one that began it, other requests' work with the one that sent it
    along, and the call that is to end a request with that request.
    """
    return contextvars.Context().run(call, *args, **kwargs)
