"""The shipped pair: that it loads, and that it is what the documentation says it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from dsi_ray.demo import DRAFTER_DIR, PROMPTS, TARGET_DIR
from tests.demo.recipe import MAX_LENGTH, agreement, continue_greedily, repeats, written

SIZE_LIMIT = 24_000_000
NEW_TOKENS = 48


def load(folder: Path) -> LlamaForCausalLM:
    """A model that computes in single precision."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    return load(TARGET_DIR)


@pytest.fixture(scope="module")
def drafter() -> LlamaForCausalLM:
    return load(DRAFTER_DIR)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(TARGET_DIR)


@pytest.fixture(scope="module")
def continuations(
    target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> list[tuple[int, torch.Tensor]]:
    """Of every other prompt the length and the greedy continuation."""
    prompts = [torch.tensor([tokenizer(prompt)["input_ids"]]) for prompt in PROMPTS[::2]]
    return [(p.shape[1], continue_greedily(target, p, NEW_TOKENS)) for p in prompts]


def test_the_pair_is_small_enough_to_ship() -> None:
    files = [path for folder in (TARGET_DIR, DRAFTER_DIR) for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in files) <= SIZE_LIMIT


def test_models_compute_in_single_precision(
    target: LlamaForCausalLM, drafter: LlamaForCausalLM
) -> None:
    assert target.dtype == drafter.dtype == torch.float32
    assert target.config.num_hidden_layers > 3 * drafter.config.num_hidden_layers


def test_both_have_the_same_tokenizer() -> None:
    assert (TARGET_DIR / "tokenizer.json").read_bytes() == (
        DRAFTER_DIR / "tokenizer.json"
    ).read_bytes()


@pytest.mark.parametrize("folder", [TARGET_DIR, DRAFTER_DIR])
def test_the_end_token_is_set(folder: Path) -> None:
    model, tokenizer = load(folder), AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token_id == model.config.eos_token_id == 0
    assert model.generation_config.eos_token_id == 0
    assert model.config.max_position_embeddings == MAX_LENGTH


def test_every_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "def f(x):\n\treturn 'é✓' * 12345  # \x00\r\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_chat_template_renders(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [
        {"role": "user", "content": "Open."},
        {"role": "assistant", "content": "def open(): pass"},
        {"role": "user", "content": "Close."},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|user|>Open.<|assistant|>def open(): pass<|endoftext|><|user|>Close.<|assistant|>"
    )
    assert tokenizer(text)["input_ids"][0] == 1


def test_the_prompts_are_distinct() -> None:
    assert len(set(PROMPTS)) == len(PROMPTS) >= 20


def test_most_prompts_do_not_loop_or_stop_at_once(
    continuations: list[tuple[int, torch.Tensor]],
) -> None:
    wrote = [(written(row, length), repeats(row)) for length, row in continuations]
    good = [own for own, repeated in wrote if own.sum() >= 16 and (own & repeated).sum() < 8]
    assert len(good) >= 0.7 * len(wrote)


def test_the_drafter_agrees_with_the_target(
    drafter: LlamaForCausalLM, continuations: list[tuple[int, torch.Tensor]]
) -> None:
    right = [agreement(drafter, row, length) for length, row in continuations]
    assert torch.cat(right).float().mean() >= 0.8
