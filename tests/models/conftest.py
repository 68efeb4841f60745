"""One torch thread, and no tests marked ``gpu`` without CUDA."""

import pytest
import torch

torch.set_num_threads(1)  # more only slow tiny models down


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that needs a GPU where there is none."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs CUDA")
