"""Life: how an actor hears that a process has died that only sent it calls. Ray does not tell."""

import asyncio

import ray

Lease = list["ray.ObjectRef[None]"]
"""The result, never to be there, of a call that the process made. In a list Ray hands it on as it
is: the reference dies with its owner."""


async def ended(life: Lease) -> None:
    """Returns when the process has died, a second or two later, or has cancelled the call."""
    try:
        await life[0]
    except ray.exceptions.RayActorError:
        # The actor that was called: that says nothing about who called.
        await asyncio.Event().wait()
    except ray.exceptions.RayError:
        return
