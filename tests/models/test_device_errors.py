"""A device that is lost ends the server; one that is full costs at most one request."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from tiny import expected_tokens, layers_of, serve

from dsi_ray.core.path import Path
from dsi_ray.core.server.scheduler import ScheduledRequest
from dsi_ray.core.server.session import ForwardStep
from dsi_ray.models.base import DeviceLost, Extension, ModelError, Sampling, extend_one
from dsi_ray.models.forward.device_errors import is_device_lost, is_out_of_memory
from dsi_ray.models.transformers_model import TransformersModel
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.server.forward_loop import ForwardLoop

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
PATH = (3, 1, 4, 1, 5, 9)

LOST = [
    torch.AcceleratorError("CUDA error: device-side assert triggered\nCompile with"),
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    torch.AcceleratorError("an error of a device that this torch has a class for"),
    RuntimeError("CUDA error: unspecified launch failure"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
    RuntimeError("HIP error: the operation cannot be performed in the present state"),
]
FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
]
HARMLESS = [
    RuntimeError("shape mismatch: value tensor of shape [3]"),
    torch.AcceleratorError("CUDA error: invalid configuration argument"),
    ValueError("CUDA error: is only a text here"),
]


@contextmanager
def failing(error: Exception, times: Callable[[int], bool]) -> Iterator[list[int]]:
    """Has the second layer of the served model raise ``error`` in the calls that ``times`` names.

    Yields the numbers of tokens of the calls so far.
    """
    calls: list[int] = []

    def fail(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        calls.append(arguments[0].shape[1])
        if times(len(calls)):
            raise error

    handle = layers_of("llama")[1].register_forward_pre_hook(fail)
    yield calls
    handle.remove()


@pytest.mark.parametrize("error", [*LOST, *FULL, *HARMLESS], ids=str)
def test_each_error_is_one_kind(error: Exception) -> None:
    assert is_device_lost(error) == (error in LOST)
    assert is_out_of_memory(error) == (error in FULL)


@pytest.mark.parametrize("error", LOST, ids=str)
def test_a_lost_device_is_no_requests_error(error: Exception) -> None:
    model = serve("llama")
    batch = [Extension(name, PATH, 1, GREEDY) for name in "ab"]
    with failing(error, lambda _: True) as calls, pytest.raises(DeviceLost, match="error"):
        extend_one(model, batch[0])
    assert len(calls) == 1


def test_it_may_show_only_when_tokens_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Kernels run later than their calls return.
    model = serve("llama")
    for sampling in (GREEDY, Sampling(SamplingParams(temperature=1), 1)):
        with monkeypatch.context() as patch, pytest.raises(DeviceLost):
            patch.setattr(torch.Tensor, "argmax", Raises(LOST[0]))
            extend_one(model, Extension("a", PATH, 1, sampling))


class Raises:
    """A method that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", FULL, ids=str)
def test_without_memory_a_request_is_tried_again_alone(error: Exception) -> None:
    model = serve("llama")
    with failing(error, lambda call: call == 1) as calls:
        assert extend_one(model, Extension("a", PATH, 1, GREEDY)).tokens == expected_tokens(
            "llama", PATH
        )
    assert calls == [len(PATH)] * 2


@pytest.mark.parametrize("error", FULL, ids=str)
def test_only_the_request_that_needs_too_much_fails(error: Exception) -> None:
    model = serve("llama")
    large, small = Extension("large", PATH * 3, 1, GREEDY), Extension("small", PATH, 1, GREEDY)

    def too_much(call: int) -> bool:
        return calls[-1] >= len(large.tokens)

    with failing(error, too_much) as calls:
        refused, found = model.extend([large, small], StopNever())
    assert isinstance(refused, ModelError)
    assert "lower kv_cache_bytes or prefill_chunk" in str(refused)
    assert not isinstance(found, Exception)
    assert found.tokens == expected_tokens("llama", PATH)
    assert calls == [24, 18, 6]


class StopNever:
    """As an event that nobody sets."""

    def is_set(self) -> bool:
        return False


def test_the_failed_forward_holds_nothing_when_it_is_tried_again() -> None:
    model = serve("llama")
    held: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def fail(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        alive.append(any(ref() is not None for ref in held))
        held.append(weakref.ref(arguments[0]))
        if len(held) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    handle = layers_of("llama")[1].register_forward_pre_hook(fail)
    extend_one(model, Extension("a", PATH, 1, GREEDY))
    handle.remove()
    assert alive == [False, False]


@pytest.mark.parametrize(("error", "lost"), [(LOST[0], True), (HARMLESS[0], False)])
def test_the_thread_of_the_forwards_ends_with_its_device(error: Exception, lost: bool) -> None:
    heard: list[object] = []
    forwards = ForwardLoop("test", 16)
    forwards.listener = heard.append
    model: TransformersModel = serve("llama")
    forwards.start(lambda: model).result()
    parts = [(ScheduledRequest("a", ForwardStep(Path.of(PATH), 1), 0, len(PATH)), GREEDY)]
    with failing(error, lambda _: True):
        if lost:
            with pytest.raises(DeviceLost):
                forwards._compute(parts)
        else:
            forwards._compute(parts)
    # What nobody asked for has no events.
    assert heard == []
