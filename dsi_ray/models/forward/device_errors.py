"""What an error of torch's says about the device, whatever its class."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dsi_ray.models.base import DeviceLost

_OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")

_OF_THE_DEVICE = ("CUDA error:", "HIP error:")

_OF_THE_CALL = (
    "invalid argument",
    "invalid configuration argument",
    "not supported",
    "no kernel image",
    "CUBLAS_STATUS_INVALID_VALUE",
    "CUBLAS_STATUS_NOT_SUPPORTED",
)
"""After these errors the device goes on; after all others every further call fails alike."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device, or the machine, had no room for a tensor."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _OUT_OF_MEMORY)


def is_device_lost(error: BaseException) -> bool:
    """Whether nothing can be computed on the device any more, until the process is another.

    What is not known to be harmless counts: to start a server again costs less than one that fails
    every request from now on.
    """
    text = str(error)
    of_device = isinstance(error, torch.AcceleratorError) or (
        isinstance(error, RuntimeError) and any(sign in text for sign in _OF_THE_DEVICE)
    )
    return of_device and not is_out_of_memory(error) and not any(s in text for s in _OF_THE_CALL)


@contextmanager
def loud_if_lost() -> Iterator[None]:
    """Turns an error after which the device is of no more use into `DeviceLost`."""
    try:
        yield
    except Exception as error:
        if is_device_lost(error):
            raise DeviceLost(" ".join(str(error).split())) from error
        raise
