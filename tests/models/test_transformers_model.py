"""Whatever happened before, `extend` says what the model says without a cache."""

import dataclasses
import threading

import pytest
import torch
from tiny import (
    CONFIGS,
    CONTEXT,
    LAYERS,
    VOCAB,
    expected_tokens,
    layers_of,
    serve,
    served_model,
    stopped_at,
)
from torch import nn

from dsi_ray.models.base import (
    Extension,
    ForwardCancelled,
    ModelError,
    NoRoom,
    Sampling,
    extend_one,
)
from dsi_ray.models.kv.blocks import BLOCK_TOKENS
from dsi_ray.models.transformers_model import TransformersModel
from dsi_ray.params import SamplingParams

GREEDY = Sampling(SamplingParams(), prompt_tokens=1)
GO = threading.Event()
PATH = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)
KINDS = sorted(CONFIGS)


def check(kind: str, model: TransformersModel, session: str, path: tuple[int, ...], start: int):
    """Compares a call with the forward without a cache."""
    found = extend_one(model, Extension(session, path, start, GREEDY)).tokens
    assert found == expected_tokens(kind, path)[start - 1 :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_forward_stopped_at_any_layer_leaves_a_consistent_cache(kind: str, layer: int) -> None:
    model = serve(kind)
    extend_one(model, Extension("a", PATH[:5], 6, GREEDY))
    with stopped_at(kind, layer) as stop, pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", PATH, 6, GREEDY), stop)
    assert model.cache_stats.computed_tokens == 5
    assert model.cached("a", PATH) == 5
    check(kind, model, "a", PATH, 6)
    assert model.cache_stats.reused_tokens == 5


def test_the_first_forward_of_a_session_can_be_stopped() -> None:
    model = serve("llama")
    with stopped_at("llama", 1) as stop, pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", PATH, 1, GREEDY), stop)
    check("llama", model, "a", PATH, 1)


def test_after_a_stopped_detour_the_old_path_is_not_taken_for_cached() -> None:
    model = serve("llama")
    extend_one(model, Extension("a", PATH, 13, GREEDY))
    with stopped_at("llama", 2) as stop, pytest.raises(ForwardCancelled):
        extend_one(model, Extension("a", (*PATH[:4], 8), 5, GREEDY), stop)
    check("llama", model, "a", (*PATH, 7), 13)
    assert model.cache_stats.computed_tokens == 12 + 9


def test_a_failed_forward_leaves_a_consistent_cache() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a kernel failed")

    model = serve("llama")
    extend_one(model, Extension("a", PATH[:5], 6, GREEDY))
    handle = layers_of("llama")[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="a kernel failed"):
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


def test_sessions_are_evicted_beyond_the_budget_and_computed_again() -> None:
    size = serve("llama").info.kv_bytes_per_token
    assert size == LAYERS * 2 * (2 * 8) * 8  # layers, keys and values, heads, float64
    block = BLOCK_TOKENS * size
    model = serve("llama", kv_cache_bytes=2 * block)
    assert model.info.kv_capacity == 2 * BLOCK_TOKENS
    for session in "ab":
        extend_one(model, Extension(session, (*PATH, ord(session) % VOCAB), 14, GREEDY))
    check("llama", model, "a", (*PATH, *PATH), 1)
    stats = model.cache_stats
    assert (stats.sessions, stats.preemptions, stats.bytes) == (1, 1, 2 * block)
    assert stats.budget_bytes == 2 * block
    check("llama", model, "b", PATH, 1)


def test_of_a_batch_that_does_not_fit_the_first_ones_are_computed() -> None:
    block = serve("llama").info.kv_bytes_per_token * BLOCK_TOKENS
    model = serve("llama", kv_cache_bytes=2 * block)
    paths = {name: (i, *PATH) for i, name in enumerate("abc")}
    paths["long"] = PATH * 3
    paths["d"] = (7, *PATH)
    batch = [Extension(name, path, 1, GREEDY) for name, path in paths.items()]
    *fit, third, long, last = model.extend(batch, GO)
    for found, path in zip(fit, [*paths.values()][:2], strict=True):
        assert found.tokens == expected_tokens("llama", path)
    assert [type(outcome) for outcome in (third, long, last)] == [NoRoom] * 3
    assert model.cache_stats.bytes <= 2 * block
    model.extend(batch[:2], GO)
    # The first ones stay: nobody's tokens are computed again and again.
    assert model.cache_stats.preemptions == 0
    with pytest.raises(ModelError, match="36 tokens are more than the 32 that the KV cache"):
        extend_one(model, batch[3])


def test_a_budget_without_room_for_anything_is_refused() -> None:
    with pytest.raises(ModelError, match="kv_cache_bytes must be 12288 or more"):
        serve("llama", kv_cache_bytes=12287)


def test_a_prompt_is_computed_once_for_all_that_begin_alike() -> None:
    model = serve("llama")
    prompt = (*PATH, *PATH, *PATH)[: 2 * BLOCK_TOKENS]
    extend_one(model, Extension("a", (*prompt, 1), 34, GREEDY))
    assert model.cached("b", (*prompt, 2)) == 32
    check("llama", model, "b", (*prompt, 2), 33)
    model.release("a")
    model.release("b")
    check("llama", model, "c", (*prompt, 3, 4), 33)
    stats = model.cache_stats
    assert (stats.computed_tokens, stats.shared_tokens, stats.reused_tokens) == (36, 64, 0)
    assert stats.cached_bytes == 0
    model.release("c")
    assert model.cache_stats.cached_bytes == 2 * BLOCK_TOKENS * model.info.kv_bytes_per_token


def test_a_request_that_cannot_be_computed_fails_alone() -> None:
    model = serve("llama")
    nothing = Sampling(SamplingParams(allowed_token_ids=(VOCAB + 1,)), 1)
    batch = [
        Extension("a", PATH, 1, GREEDY),
        Extension("unknown", (1, VOCAB), 1, GREEDY),
        Extension("long", (1,) * (CONTEXT + 1), 1, GREEDY),
        Extension("nothing", PATH, 12, nothing),
        Extension("b", PATH[:5], 2, GREEDY),
    ]
    first, *refused, last = model.extend(batch, GO)
    assert first.tokens == expected_tokens("llama", PATH)
    assert last.tokens == expected_tokens("llama", PATH[:5])[1:]
    assert [type(error) for error in refused] == [ModelError] * 3


def test_a_request_that_breaks_the_forward_fails_alone() -> None:
    poison = 30

    def fail(_: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        if (arguments[0] == poison).any():
            raise RuntimeError("device-side assert")

    model = serve("llama")
    paths = (PATH, (1, 2, poison), PATH[:4])
    handle = served_model("llama", "cpu").get_input_embeddings().register_forward_pre_hook(fail)
    batch = [Extension(str(i), path, 1, GREEDY) for i, path in enumerate(paths)]
    first, broken, last = model.extend(batch, GO)
    handle.remove()
    assert first.tokens == expected_tokens("llama", paths[0])
    assert last.tokens == expected_tokens("llama", paths[2])
    assert isinstance(broken, RuntimeError)
    for i, path in enumerate(paths):
        check("llama", model, str(i), path, 1)


def test_numbers_that_are_not_finite_stay_in_their_request() -> None:
    poison = 30

    def overflow(_: nn.Module, arguments: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        output[arguments[0] == poison] = torch.nan

    block = serve("llama").info.kv_bytes_per_token * BLOCK_TOKENS
    model = serve("llama", kv_cache_bytes=2 * block)
    handle = served_model("llama", "cpu").get_input_embeddings().register_forward_hook(overflow)
    batch = [Extension("a", PATH[:5], 1, GREEDY), Extension("bad", (poison,) * 12, 13, GREEDY)]
    found, _ = model.extend(batch, GO)
    assert found.tokens == expected_tokens("llama", PATH[:5])
    model.release("bad")
    # The shorter one is padded with what the room behind its tokens holds.
    batch = [Extension("a", PATH, 6, GREEDY), Extension("b", PATH[:7], 1, GREEDY)]
    longer, shorter = model.extend(batch, GO)
    handle.remove()
    assert longer.tokens == expected_tokens("llama", PATH)[5:]
    assert shorter.tokens == expected_tokens("llama", PATH[:7])


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
    small = TransformersModel(
        "llama", served_model("llama", "cpu"), vocab_size=9, kv_cache_bytes=2**30
    )
    paths = [(a, b) for a in range(9) for b in range(9)]
    tokens = [extend_one(small, Extension("a", path, 2, GREEDY)).tokens[0] for path in paths]
    assert small.info.vocab_size == 9
    assert max(tokens) < 9
    assert any(extend_one(whole, Extension("a", path, 2, GREEDY)).tokens[0] >= 9 for path in paths)


def test_info_tells_what_the_model_is() -> None:
    info = serve("llama").info
    assert (info.name, info.dtype, info.device) == ("llama", "float64", "cpu")
    assert (info.vocab_size, info.max_context, info.eos_ids) == (VOCAB, CONTEXT, (0,))
    assert info.parameters == sum(w.numel() for w in served_model("llama", "cpu").parameters())


def test_a_cache_that_cannot_be_cropped_is_refused() -> None:
    model = served_model("llama", "cpu")
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
