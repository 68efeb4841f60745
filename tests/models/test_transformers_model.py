"""Whatever happened before, `extend` says what the model says without a cache."""

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import CONFIGS, CONTEXT, LAYERS, VOCAB, expected_tokens, serve
from torch import nn

from dsi_ray.models.base import Extension, ForwardCancelled, ModelError, Sampling, extend_one
from dsi_ray.models.transformers_model import TransformersModel
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
GO = threading.Event()
PATH = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)
KINDS = sorted(CONFIGS)


def layers_of(model: TransformersModel) -> nn.ModuleList:
    """Returns the decoder layers: the longest list of modules."""
    lists = [module for module in model._model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len)


@contextmanager
def stopped_at(model: TransformersModel, layer: int) -> Iterator[threading.Event]:
    """Yields an event that is set while the forward enters ``layer``."""
    stop = threading.Event()
    handle = layers_of(model)[layer].register_forward_pre_hook(lambda *_: stop.set())
    yield stop
    handle.remove()


def check(kind: str, model: TransformersModel, session: str, path: tuple[int, ...], start: int):
    """Compares a call with the forward without a cache."""
    found = extend_one(model, Extension(session, path, start, GREEDY)).tokens
    assert found == expected_tokens(kind, path)[start - 1 :]


steps = st.lists(
    st.tuples(
        st.sampled_from(["extend", "release", *range(LAYERS)]),
        st.sampled_from("abc"),
        st.integers(0, CONTEXT),  # how many of the session's tokens stay
        st.lists(st.integers(0, 2), max_size=6),  # few ids, so that paths meet again
        st.integers(1, CONTEXT + 1),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(steps=steps, budget=st.sampled_from([1, 20_000, 2**30]))
def test_any_history_gives_the_uncached_tokens(kind: str, steps: list, budget: int) -> None:
    run_history(kind, "cpu", steps, budget)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(steps=steps, budget=st.sampled_from([1, 20_000, 2**30]))
def test_any_history_gives_the_uncached_tokens_on_a_gpu(
    kind: str, steps: list, budget: int
) -> None:
    run_history(kind, "cuda", steps, budget)


def run_history(kind: str, device: str, steps: list, budget: int) -> None:
    """Extends, rewinds, diverges, cancels at a layer, releases and evicts."""
    model = serve(kind, device, budget)
    paths: dict[str, tuple[int, ...]] = {}
    for what, session, kept, new, start in steps:
        if what == "release":
            model.release(session)
            continue
        path = (*paths.get(session, ())[:kept], *new)[:CONTEXT] or (1,)
        start = min(start, len(path) + 1)
        if what == "extend":
            paths[session] = path
            found = extend_one(model, Extension(session, path, start, GREEDY)).tokens
            assert found == expected_tokens(kind, path, device)[start - 1 :]
            continue
        with stopped_at(model, what) as stop, suppress(ForwardCancelled):
            extend_one(model, Extension(session, path, start, GREEDY), stop)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_forward_stopped_at_any_layer_leaves_a_consistent_cache(kind: str, layer: int) -> None:
    model = serve(kind)
    extend_one(model, Extension("a", PATH[:5], 6, GREEDY))
    with stopped_at(model, layer) as stop, pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", PATH, 6, GREEDY), stop)
    assert model.cache_stats.computed_tokens == 5
    assert model._sessions.open("a").lengths == {5}
    check(kind, model, "a", PATH, 6)
    assert model.cache_stats.reused_tokens == 5


def test_the_first_forward_of_a_session_can_be_stopped() -> None:
    model = serve("llama")
    with stopped_at(model, 1) as stop, pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", PATH, 1, GREEDY), stop)
    check("llama", model, "a", PATH, 1)


def test_after_a_stopped_detour_the_old_path_is_not_taken_for_cached() -> None:
    model = serve("llama")
    extend_one(model, Extension("a", PATH, 13, GREEDY))
    with stopped_at(model, 2) as stop, pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", (*PATH[:4], 8), 5, GREEDY), stop)
    check("llama", model, "a", (*PATH, 7), 13)
    assert model.cache_stats.computed_tokens == 12 + 9


def test_a_failed_forward_leaves_a_consistent_cache() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    model = serve("llama")
    extend_one(model, Extension("a", PATH[:5], 6, GREEDY))
    handle = layers_of(model)[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        extend_one(model, Extension("a", PATH, 6, GREEDY))
    handle.remove()
    check("llama", model, "a", PATH, 6)


def test_only_the_part_that_the_cache_lacks_is_computed() -> None:
    model = serve("llama")
    check("llama", model, "a", PATH, 13)
    check("llama", model, "a", (*PATH, 7, 7), 13)
    assert model.cache_stats.computed_tokens == 12 + 2
    check("llama", model, "a", (*PATH[:4], 8), 5)
    assert model.cache_stats.computed_tokens == 12 + 2 + 1
    check("llama", model, "a", (*PATH[:4], 8), 5)  # nothing new, but a token is wanted
    assert model.cache_stats.computed_tokens == 12 + 2 + 1 + 1


def test_a_prefill_of_cached_tokens_computes_nothing() -> None:
    model = serve("llama")
    extend_one(model, Extension("a", PATH, 13, GREEDY))
    assert extend_one(model, Extension("a", PATH[:6], 7, GREEDY)).tokens == []
    assert model.cache_stats.computed_tokens == 12
    check("llama", model, "a", (*PATH, 1), 13)
    assert model.cache_stats.computed_tokens == 12 + 1


def test_idle_sessions_are_evicted_beyond_the_budget_and_never_the_one_in_use() -> None:
    one_token = serve("llama")
    extend_one(one_token, Extension("a", (1,), 2, GREEDY))
    size = one_token.cache_stats.bytes
    assert size == LAYERS * 2 * (2 * 8) * 8  # layers, keys and values, heads, float64

    model = serve("llama", kv_cache_bytes=20 * size)
    for session in "ab":
        extend_one(model, Extension(session, PATH[:8], 9, GREEDY))
    extend_one(model, Extension("a", PATH[:9], 10, GREEDY))  # now b is the idle one
    extend_one(model, Extension("c", PATH[:8], 9, GREEDY))
    stats = model.cache_stats
    assert (stats.sessions, stats.evictions, stats.bytes) == (2, 1, 17 * size)
    computed = stats.computed_tokens
    extend_one(model, Extension("a", PATH[:9], 10, GREEDY))
    assert model.cache_stats.computed_tokens == computed
    check("llama", model, "c", (*PATH, *PATH), 1)
    assert (model.cache_stats.sessions, model.cache_stats.bytes) == (1, 24 * size)


def test_release_frees_a_session_and_takes_an_unknown_one() -> None:
    model = serve("llama")
    extend_one(model, Extension("a", PATH, 13, GREEDY))
    model.release("a")
    model.release("a")
    assert (model.cache_stats.sessions, model.cache_stats.bytes) == (0, 0)


def test_a_sequence_longer_than_the_context_is_refused_before_the_forward() -> None:
    model = serve("llama")
    full = tuple(i % VOCAB for i in range(CONTEXT))
    check("llama", model, "a", full, CONTEXT)
    with pytest.raises(ModelError, match=f"{CONTEXT + 1} tokens are more than the {CONTEXT} that"):
        extend_one(model, Extension("a", (*full, 1), CONTEXT + 1, GREEDY))
    check("llama", model, "a", full, 1)


@pytest.mark.parametrize("unknown", [VOCAB, -1])
def test_an_id_that_the_model_lacks_is_refused(unknown: int) -> None:
    model = serve("llama")
    with pytest.raises(ModelError, match=f"knows only token ids below {VOCAB}"):
        extend_one(model, Extension("a", (1, unknown), 1, GREEDY))


def test_padding_rows_of_the_vocabulary_are_never_chosen() -> None:
    whole = serve("llama")
    small = TransformersModel("llama", whole._model, vocab_size=9, kv_cache_bytes=2**30)
    paths = [(a, b) for a in range(9) for b in range(9)]
    tokens = [extend_one(small, Extension("a", path, 2, GREEDY)).tokens[0] for path in paths]
    assert small.info.vocab_size == 9
    assert max(tokens) < 9
    assert any(extend_one(whole, Extension("a", path, 2, GREEDY)).tokens[0] >= 9 for path in paths)


def test_info_tells_what_the_model_is() -> None:
    info = serve("llama").info
    assert (info.name, info.dtype, info.device) == ("llama", "float64", "cpu")
    assert (info.vocab_size, info.max_context, info.eos_ids) == (VOCAB, CONTEXT, (0,))
    assert info.parameters == sum(w.numel() for w in serve("llama")._model.parameters())


def test_a_cache_that_cannot_be_cropped_is_refused() -> None:
    model = serve("llama")._model
    total = torch.zeros(16, dtype=torch.float64)

    def remember(_: nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        total.add_(arguments[0][0].sum(0))
        return (arguments[0] + total, *arguments[1:])

    handle = model.model.norm.register_forward_pre_hook(remember)
    with pytest.raises(ModelError, match="cannot take back a rejected draft"):
        TransformersModel("recurrent", model, VOCAB, 2**30)
    handle.remove()


def hot(seed: int, **fields: object) -> Sampling:
    """A request at temperature 1."""
    return Sampling(SamplingParams(temperature=1, **fields), 1, seed=seed)


def test_bug_15_seeded_and_unseeded_requests_together() -> None:
    """vLLM 10863: sessions of other seeds and parameters, in turns on one model, change nothing."""
    requests = {
        "a": hot(1),
        "b": hot(2, top_k=3),
        "c": GREEDY,
        "d": hot(1, repetition_penalty=1.5, min_tokens=4),
    }

    def texts(names: str, in_turns: bool) -> dict[str, tuple[int, ...]]:
        model = serve("llama")
        paths = dict.fromkeys(names, PATH[:1])
        turns = [name for _ in range(12) for name in names]
        for name in turns if in_turns else sorted(turns):
            path = paths[name]
            paths[name] += tuple(
                extend_one(model, Extension(name, path, len(path), requests[name])).tokens
            )
        return paths

    alone = {name: texts(name, in_turns=False)[name] for name in requests}
    assert texts("abcd", in_turns=True) == texts("dbca", in_turns=False) == alone
    assert len(set(alone.values())) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_tokens_are_those_of_a_forward_a_token(kind: str) -> None:
    """Whatever the block: with penalties each row has its own."""
    sampling = hot(3, repetition_penalty=1.4, presence_penalty=0.5, top_p=0.95, logprobs=2)
    single = serve(kind)
    steps = [extend_one(single, Extension("a", PATH[:i], i, sampling)) for i in range(1, 13)]
    for start in (1, 2, 7, 12):
        block = extend_one(serve(kind), Extension("b", PATH, start, sampling))
        assert block.tokens == [step.tokens[0] for step in steps[start - 1 :]]
        for found, step in zip(block.logprobs, steps[start - 1 :], strict=True):
            assert found.logprob == pytest.approx(step.logprobs[0].logprob)
            assert [i for i, _ in found.top] == [i for i, _ in step.logprobs[0].top]


def test_a_drafter_guesses_no_id_that_the_target_lacks() -> None:
    model = serve("llama")
    sampling = dataclasses.replace(hot(5), vocab_size=9)
    for i in range(60):
        (token,) = extend_one(model, Extension("a", (*PATH[:3], i % VOCAB), 4, sampling)).tokens
        assert token < 9
