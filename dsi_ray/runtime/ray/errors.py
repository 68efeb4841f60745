"""Ray's errors and what is behind them."""

import contextlib
from collections.abc import Iterator

import ray

from dsi_ray.runtime.errors import EngineError, GroupLost, GroupUnreachable


def root_cause(error: BaseException) -> BaseException:
    """What was raised in an actor, or in an actor that this one had called."""
    while isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        error = error.cause
    return error


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Turns Ray's errors into those of this package."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        # First, for Ray makes the error of a call an instance of its cause's class too.
        cause = root_cause(error)
        if isinstance(cause, ray.exceptions.RayError):
            raise EngineError("a model server was lost") from error
        raise cause from None
    except ray.exceptions.ActorUnavailableError as error:
        raise GroupUnreachable("the coordinator cannot be reached") from error
    except ray.exceptions.RayActorError as error:
        raise GroupLost("the coordinator was lost") from error
