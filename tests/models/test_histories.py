"""Whatever happened before, and whoever is in the batch: tokens are those without a cache."""

import threading
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import CONFIGS, CONTEXT, LAYERS, VOCAB, expected_tokens, serve, stopped_at

from dsi_ray.models.base import Extension, ForwardCancelled, ModelError, NoRoom, Sampling
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
KINDS = sorted(CONFIGS)
TEXT = tuple(i * i % VOCAB for i in range(40))
"""What sessions begin with: two full blocks, which they share, and a part of one."""

BLOCK_BYTES = 16 * 768

parts = st.tuples(
    st.integers(0, CONTEXT),  # how many of the session's tokens, or of the text, stay
    st.lists(st.integers(0, 2), max_size=6),  # few ids, so that paths meet again
    st.integers(1, CONTEXT + 1),
    st.booleans(),  # whether an unknown id spoils it
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["extend", "extend", "release", *range(LAYERS)]),
        st.dictionaries(st.sampled_from("abcd"), parts, min_size=1),
    ),
    max_size=8,
)
budgets = st.sampled_from([3 * BLOCK_BYTES, 5 * BLOCK_BYTES, 2**30])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(steps=steps, budget=budgets)
def test_any_history_gives_the_uncached_tokens(kind: str, steps: list, budget: int) -> None:
    run_history(kind, "cpu", steps, budget)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(steps=steps, budget=budgets)
def test_any_history_gives_the_uncached_tokens_on_a_gpu(
    kind: str, steps: list, budget: int
) -> None:
    run_history(kind, "cuda", steps, budget)


def run_history(kind: str, device: str, steps: list, budget: int) -> None:
    """Extends, rewinds, diverges, cancels at a layer, releases and evicts."""
    model = serve(kind, device, budget)
    paths: dict[str, tuple[int, ...]] = {}
    for what, sessions in steps:
        if what == "release":
            for session in sessions:
                model.release(session)
                paths.pop(session, None)
            continue
        batch = []
        for session, (kept, new, start, spoilt) in sessions.items():
            path = (*paths.get(session, TEXT)[:kept], *new)[: CONTEXT - 1] or (1,)
            path = (*path, VOCAB) if spoilt else path
            batch.append(Extension(session, path, min(start, len(path) + 1), GREEDY))
        stopped = what != "extend"
        with stopped_at(kind, what, device) if stopped else nullcontext(threading.Event()) as stop:
            with suppress(ForwardCancelled):
                outcomes = model.extend(batch, stop)
                assert not isinstance(outcomes[0], NoRoom)
                for part, found in zip(batch, outcomes, strict=True):
                    if isinstance(found, NoRoom):
                        continue
                    if VOCAB in part.tokens:
                        # Nothing is wanted of it, or it is refused.
                        assert isinstance(found, ModelError)
                        continue
                    expected = expected_tokens(kind, part.tokens[:], device)
                    assert found.tokens == expected[part.start - 1 :]
                    paths[part.session] = part.tokens[:]
        assert model.cache_stats.bytes + model.cache_stats.cached_bytes <= budget
