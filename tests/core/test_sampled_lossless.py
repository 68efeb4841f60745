"""At any temperature and with every parameter on: one seed, one text, whoever decodes it."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Plan
from dsi_ray.core.messages import Emit, FinishReason, TokenLogprobs
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams
from tests.core.hostile import HostileDriver
from tests.core.language import Language
from tests.core.sampled import Extends, SampledScenario, ServedModel, Table, everything_on
from tests.core.scenario import ALGORITHMS
from tests.core.strategies import SEEDS, durations, plans
from tests.core.test_lossless import check, watch
from tests.models import tiny

VOCABULARY = 12
EOS = 0
STOP = 2
MOST_TOKENS = 20

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
temperatures = pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])

Makers = tuple[Callable[[], Extends], ...]
"""Of a target and of drafters from good to bad."""


def tables(seed: int) -> Makers:
    """The target, itself as a drafter, one that is often right, a stranger, and one that knows more
    ids than the target."""
    return tuple(
        partial(Table, seed, vocabulary, blur)
        for vocabulary, blur in (
            (VOCABULARY, 0.0),
            (VOCABULARY, 0.0),
            (VOCABULARY, 0.3),
            (VOCABULARY, 1.0),
            (VOCABULARY + 3, 0.3),
        )
    )


def transformers(seed: int) -> Makers:
    """Real models with KV caches: the drafters are the target itself and another architecture."""
    return tuple(partial(tiny.serve, kind) for kind in ("llama", "llama", "gpt2"))


@st.composite
def sampled_scenarios(
    draw: st.DrawFn, makers: Callable[[int], Makers], vocabulary: int, temperature: float
) -> SampledScenario:
    """Any servers and messages; every parameter is on."""
    new_target, *new_drafters = makers(draw(SEEDS))
    prompt = draw(st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=4).map(tuple))
    max_tokens = draw(st.integers(1, MOST_TOKENS))
    ignore_eos = draw(st.booleans())
    params = everything_on(
        temperature,
        vocabulary,
        max_tokens=max_tokens,
        min_tokens=min(max_tokens, draw(st.integers(1, 6))),
        stop_token_ids=(STOP,),
        ignore_eos=ignore_eos,
    )
    return SampledScenario(
        target=Language(0, vocabulary),
        drafters=(),
        prompt=prompt,
        criteria=StopCriteria(max_tokens, frozenset({STOP} if ignore_eos else {STOP, EOS})),
        sp_degree=draw(st.integers(1, 3)),
        plan=draw(plans()),
        target_latencies=draw(durations()),
        drafter_latencies=tuple(draw(durations()) for _ in range(2)),
        messages=draw(durations()),
        sampling=Sampling(
            params,
            len(prompt),
            frozenset({EOS, STOP}),
            draw(st.integers(-(2**63), 2**63 - 1)),
            vocabulary,
        ),  # fmt: skip
        new_target=new_target,
        new_drafters=tuple(draw(st.lists(st.sampled_from(new_drafters), max_size=2))),
    )


def check_sampled(scenario: SampledScenario, algorithm: str, **options: Any) -> None:
    """Right tokens and right log probabilities."""
    if algorithm == "si" and not scenario.new_drafters:
        return
    driver = scenario.driver(algorithm, observe=watch, **options)
    check(scenario, algorithm, driver)
    _, _, expected = scenario.plain
    found = emitted(driver)
    assert len(found) == len(expected) == len(driver.run.tokens)
    for entry, other in zip(found, expected, strict=True):
        assert entry.logprob == pytest.approx(other.logprob, abs=1e-9)
        assert [i for i, _ in entry.top] == [i for i, _ in other.top]


def emitted(driver: HostileDriver) -> list[TokenLogprobs]:
    """The log probabilities that the client got."""
    emits = [command for command in driver.commands if isinstance(command, Emit)]
    assert all(len(emit.logprobs) == len(emit.tokens) for emit in emits)
    return [entry for emit in emits for entry in emit.logprobs]


@algorithms
@temperatures
@given(data=st.data())
def test_one_seed_one_text(algorithm: str, temperature: float, data: st.DataObject) -> None:
    scenario = data.draw(sampled_scenarios(tables, VOCABULARY, temperature))
    check_sampled(scenario, algorithm, ordered=data.draw(st.booleans()))


@temperatures
@settings(max_examples=8)
@given(data=st.data())
def test_one_seed_one_text_with_real_models(temperature: float, data: st.DataObject) -> None:
    scenario = data.draw(sampled_scenarios(transformers, tiny.VOCAB, temperature))
    for algorithm in ALGORITHMS:
        check_sampled(scenario, algorithm)


def fixed(params: SamplingParams, plan: Plan, drafter: Table, **changes: Any) -> SampledScenario:
    """A request with a drafter, on constant latencies."""
    return SampledScenario(
        target=Language(0, VOCABULARY),
        drafters=(),
        prompt=(5, 6),
        criteria=StopCriteria(params.max_tokens, frozenset({EOS})),
        sp_degree=2,
        plan=plan,
        sampling=Sampling(params, 2, frozenset({EOS}), seed=changes.pop("seed", 1)),
        new_target=partial(Table, drafter.seed, VOCABULARY),
        new_drafters=(lambda: drafter,),
    )


@algorithms
def test_bug_3_eos_mid_block(algorithm: str) -> None:
    """transformers 47912, llama.cpp 28049: the text ends inside an accepted block."""
    ends = set()
    for seed in range(30):
        params = SamplingParams(max_tokens=40, temperature=1, logit_bias={EOS: 2})
        scenario = fixed(params, Plan(8, 16), Table(seed, VOCABULARY), seed=seed)
        driver = scenario.driver(algorithm)
        check(scenario, algorithm, driver)
        text = driver.run.tokens
        if driver.finishes[-1] is FinishReason.STOP:
            assert text.index(EOS) == len(text) - 1
            ends.add(len(text) % 8)
    assert len(ends) >= 4, "the cases end in few places only"


def test_the_texts_are_not_greedy_ones() -> None:
    """Guards the cases above: the noise and the drafters matter in them."""
    plan, drafter = Plan(3, 9), Table(1, VOCABULARY, 0.3)
    texts = set()
    for seed in range(10):
        params = everything_on(1.0, VOCABULARY, max_tokens=20, min_tokens=3)
        driver = fixed(params, plan, drafter, seed=seed).driver("dsi")
        texts.add(tuple(driver().tokens))
        assert driver.decoder.tree.accepted + driver.decoder.tree.rejected > 0
    assert len(texts) == 10


def test_a_shared_seed_makes_drafts_agree() -> None:
    """A drafter with noise of its own is right less often."""
    plan, drafter = Plan(3, 9), Table(1, VOCABULARY, 0.15)
    params = SamplingParams(max_tokens=40, temperature=1, ignore_eos=True)

    def accepted(draft_seed: int) -> int:
        total = 0
        for seed in range(10):
            scenario = fixed(params, plan, drafter, seed=seed)
            own = dataclasses.replace(scenario.sampling, seed=seed + draft_seed)
            (server,) = scenario.drafter_servers
            models = scenario.models() | {server: ServedModel(drafter, own, lambda step: 1)}
            driver = HostileDriver(scenario.decoder("si"), models)
            driver()
            total += driver.decoder.tree.accepted
        return total

    assert accepted(0) > 1.3 * accepted(1)
