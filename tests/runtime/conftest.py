"""Engines on real Ray: random pairs of several kinds, and the demo pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, GPTNeoXConfig, PreTrainedTokenizerFast

from dsi_ray.config import EngineConfig
from dsi_ray.runtime.client.engine import Engine

VOCAB = 37
CONTEXT = 128
EOS = 0
PROMPT_COUNT = 6
DEMO_PROMPT_COUNT = 4


@dataclass
class Pair:
    """An engine, and the target as transformers itself runs it."""

    engine: Engine
    reference: Any
    prompts: Sequence[Sequence[int]]
    _known: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = field(default_factory=dict)

    def expected(self, prompt: Sequence[int], max_tokens: int) -> tuple[int, ...]:
        """What `generate` gives for a prompt, greedily."""
        key = tuple(prompt), max_tokens
        if key not in self._known:
            self._known[key] = generated(self.reference, prompt, max_tokens)
        return self._known[key]


def generated(model: Any, prompt: Sequence[int], max_tokens: int) -> tuple[int, ...]:
    """The greedy continuation by transformers itself."""
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        output = model.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=max_tokens, pad_token_id=0
        )
    return tuple(output[0, len(prompt) :].tolist())


def random_model(seed: int, layers: int, context: int = CONTEXT) -> Any:
    """A float64 GPT-NeoX, with weights so large that every token of the context counts."""
    torch.manual_seed(seed)
    config = GPTNeoXConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=context,
        initializer_range=0.6,
        bos_token_id=None,
        eos_token_id=EOS,
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float64)


def slowed(model: Any, layers: int) -> Any:
    """The same function behind many more layers, with a little noise: slower, and often right."""
    slow = random_model(seed=1, layers=layers)
    slow.load_state_dict(model.state_dict(), strict=False)
    for layer in slow.gpt_neox.layers[len(model.gpt_neox.layers) :]:
        for output in (layer.attention.dense, layer.mlp.dense_4h_to_h):
            torch.nn.init.zeros_(output.weight)
            torch.nn.init.zeros_(output.bias)
    with torch.no_grad():
        slow.lm_head.weight += 0.1 * torch.randn_like(slow.lm_head.weight)
    return slow


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and the drafters `wrong` and `slow`, saved with one tokenizer."""
    folder = tmp_path_factory.mktemp("models")
    target = random_model(seed=1, layers=3)
    words = Tokenizer(WordLevel({f"t{i}": i for i in range(VOCAB)}, unk_token="t1"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    models = {"target": target, "wrong": random_model(2, layers=1), "slow": slowed(target, 12)}
    for name, model in models.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def random_prompts(count: int) -> list[list[int]]:
    """Token ids of lengths 1, 1, 2, ... ."""
    generator = torch.Generator().manual_seed(3)
    lengths = [1, *range(1, count)]
    return [torch.randint(1, VOCAB, (n,), generator=generator).tolist() for n in lengths]


PAIRS = [("wrong", "calls"), ("slow", "lanes"), ("target", "calls"), ("demo", "lanes")]
"""A drafter and what messages travel on."""


@pytest.fixture(scope="session", params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, ray_cluster: None, model_folder: Path) -> Iterator[Pair]:
    """Three target servers and one drafter: always wrong, slower than the target, identical to
    it, or the demo pair."""
    name, transport = request.param
    demo = name == "demo"
    dtype = "float32" if demo else "float64"
    target = "demo" if demo else str(model_folder / "target")
    drafter = "demo" if demo else str(model_folder / name)
    config = EngineConfig.model_validate(
        {
            "target": {"model": target, "dtype": dtype},
            "drafters": [{"model": drafter, "dtype": dtype}],
            "sp_degree": 3,
            "transport": transport,
        }
    )
    with Engine(config) as engine:
        if demo:
            from dsi_ray.demo import PROMPTS, TARGET_DIR

            target = str(TARGET_DIR)
            texts = [engine.tokenizer.encode(text) for text in PROMPTS]
            prompts = [texts[0][:1], *texts[: DEMO_PROMPT_COUNT - 1]]
        else:
            prompts = random_prompts(PROMPT_COUNT)
        reference = AutoModelForCausalLM.from_pretrained(target, dtype=getattr(torch, dtype))
        yield Pair(engine, reference.eval(), prompts)
