"""Text in a given form: valid, and one text for one seed whoever decodes it, with real models."""

import itertools
import json
import random
import re
from collections.abc import Iterator
from functools import partial

import jsonschema
import pytest
import torch

from dsi_ray.config import ModelConfig
from dsi_ray.core.commit import StopCriteria
from dsi_ray.core.decoders import Plan
from dsi_ray.core.messages import FinishReason, Role
from dsi_ray.demo import PROMPTS
from dsi_ray.models.base import LanguageModel, Sampling
from dsi_ray.models.load import load_model
from dsi_ray.models.text.tokenizer import load_tokenizer
from dsi_ray.params import Guide, SamplingParams
from tests.core.language import Language
from tests.core.sampled import SampledScenario
from tests.core.schemas import schema

SCHEMAS = 40
MAX_TOKENS = 300
"""More than any text of these guides takes."""

TOKENIZER = load_tokenizer(ModelConfig(model="demo"))


class DemoPair:
    """Two target servers and a drafter, loaded once and used for one text after the other."""

    def __init__(self) -> None:
        config = ModelConfig(model="demo")
        self.targets = [load_model(config, Role.TARGET, index) for index in range(2)]
        self.drafter = load_model(config, Role.DRAFTER)
        self.accepted = self.rejected = 0

    def decode(self, guide: Guide, seed: int, temperature: float = 1.0) -> str:
        """The whole text, after checking that all algorithms give the same tokens."""
        text, finish = self.decode_some(guide, seed, temperature)
        assert finish is FinishReason.STOP, guide
        return text

    def decode_some(
        self, guide: Guide, seed: int, temperature: float
    ) -> tuple[str, FinishReason | None]:
        """The text as far as it goes in `MAX_TOKENS`, and why it ended."""
        texts = {name: self._run(name, guide, seed, temperature) for name in ("non-si", "si")}
        for sp_degree in (1, 2):
            texts[f"dsi {sp_degree}"] = self._run("dsi", guide, seed, temperature, sp_degree)
        plain = texts["non-si"]
        assert all(text == plain for text in texts.values()), (guide, texts)
        tokens, finish = plain
        return TOKENIZER.decode(tokens), finish

    def _run(
        self, algorithm: str, guide: Guide, seed: int, temperature: float, sp_degree: int = 1
    ) -> tuple[list[int], FinishReason | None]:
        for model in (*self.targets, self.drafter):
            model.release("request")
        driver = self._scenario(guide, seed, temperature, sp_degree).driver(algorithm)
        driver()
        self.accepted += driver.decoder.tree.accepted
        self.rejected += driver.decoder.tree.rejected
        assert driver.run.error is None
        return driver.run.tokens, driver.finishes[-1]

    def _scenario(
        self, guide: Guide, seed: int, temperature: float, sp_degree: int
    ) -> SampledScenario:
        prompt = tuple(TOKENIZER.encode(PROMPTS[seed % len(PROMPTS)])[:16])
        params = SamplingParams(
            temperature=temperature, max_tokens=MAX_TOKENS, seed=seed, guide=guide
        )
        target = self.targets[0].info
        servers: Iterator[LanguageModel] = itertools.cycle(self.targets)
        return SampledScenario(
            target=Language(0, target.vocab_size),
            drafters=(),
            prompt=prompt,
            criteria=StopCriteria(MAX_TOKENS, frozenset(target.eos_ids)),
            sp_degree=sp_degree,
            plan=Plan(3, 9),
            sampling=Sampling.of(params, len(prompt), target),
            new_target=partial(next, servers),
            new_drafters=(lambda: self.drafter,),
        )


@pytest.fixture(scope="module")
def demo_pair() -> Iterator[DemoPair]:
    """The demo pair on one thread: more only slow tiny models down."""
    before = torch.get_num_threads()
    yield DemoPair()
    torch.set_num_threads(before)


def test_json_of_random_schemas_is_valid(demo_pair: DemoPair) -> None:
    dice = random.Random(4)
    texts = set()
    for seed in range(SCHEMAS):
        described = schema(dice)
        text = demo_pair.decode(Guide("json_schema", json.dumps(described)), seed)
        jsonschema.validate(json.loads(text), described)
        texts.add(text)
    assert len(texts) > SCHEMAS / 2
    assert demo_pair.accepted and demo_pair.rejected


@pytest.mark.parametrize("temperature", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(
    "regex",
    [r"\d{3}-[a-f]{2,5}", r"(def|class) [a-z_]{1,12}(\(\))?:", r"[^\n]{0,20}\.", "[äöü🙂]{1,4}"],
)
def test_texts_match_the_regex(demo_pair: DemoPair, regex: str, temperature: float) -> None:
    for seed in range(2):
        text = demo_pair.decode(Guide("regex", regex), seed, temperature)
        assert re.fullmatch(regex, text), text


def test_texts_are_choices(demo_pair: DemoPair) -> None:
    choices = ("yes", "yes, but", "no", 'quoted "text"\n', "naïve 🙂")
    texts = [demo_pair.decode(Guide("choice", choices=choices), seed, 2.0) for seed in range(8)]
    assert set(texts) <= set(choices)
    assert len(set(texts)) > 1


def test_a_json_object(demo_pair: DemoPair) -> None:
    """Nothing bounds such a text; where it ends, it is an object."""
    text, finish = demo_pair.decode_some(Guide.json_object(), 0, 0.3)
    assert text.startswith("{")
    assert finish is FinishReason.LENGTH or isinstance(json.loads(text), dict)
