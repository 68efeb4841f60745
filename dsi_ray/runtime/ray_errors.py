"""Ray's errors and what is behind them."""

import ray


def root_cause(error: BaseException) -> BaseException:
    """What was raised in an actor, or in an actor that this one had called."""
    while isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        error = error.cause
    return error
