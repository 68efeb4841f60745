"""Nothing that a lane carries grows with the context."""

from dsi_ray.experiments.online.context import CONTEXTS, task_bytes


def test_a_task_takes_as_many_bytes_at_any_length_but_for_its_numbers() -> None:
    sizes = [task_bytes(context) for context in CONTEXTS]
    assert max(sizes) - min(sizes) < 16
    assert max(sizes) < 120
