"""The trial at the start refuses what a batch would change, and nothing else."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import CONFIGS
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig, OpenAIGPTConfig, OPTConfig

from dsi_ray.models.base import ModelError
from dsi_ray.models.forward import attention
from dsi_ray.models.forward.far_trial import far_length
from dsi_ray.models.forward.packed_model import PackedModel
from dsi_ray.models.forward.packing import running
from dsi_ray.models.forward.trial import try_out
from dsi_ray.models.kv.paged import PagedCache, PagedLayer

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
DEPTHS = (2, 24)
SCALES = (0.02, 0.2)
"""Of the weights: as they are usually initialized, and so large that errors grow."""


def llama(dtype: torch.dtype, depth: int, scale: float) -> PackedModel:
    """A random model of some depth."""
    torch.manual_seed(depth)
    config = LlamaConfig(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=depth,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=scale,
    )
    return packed(config, dtype)


def packed(config: Any, dtype: torch.dtype = torch.float32) -> PackedModel:
    """A random model."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return PackedModel(model.eval().requires_grad_(False))


@pytest.fixture
def sums_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches sum products in eight parts, each rounded, as kernels do that split them."""
    whole = nn.functional.linear

    def linear(self: nn.Linear, states: Tensor) -> Tensor:
        if running() is None:
            return whole(states, self.weight, self.bias)
        parts = zip(states.chunk(8, -1), self.weight.chunk(8, -1), strict=True)
        *_, total = itertools.accumulate(whole(one, weights) for one, weights in parts)
        return total if self.bias is None else total + self.bias

    monkeypatch.setattr(nn.Linear, "forward", linear)


@pytest.mark.usefixtures("sums_in_parts")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rounding_errors_are_no_fault(dtype: torch.dtype, depth: int, scale: float) -> None:
    try_out("healthy", llama(dtype, depth, scale))


@pytest.mark.usefixtures("sums_in_parts")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cache_that_does_not_crop_is_found(
    dtype: torch.dtype, depth: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = PagedLayer.update

    def keeping(self: PagedLayer, *states: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        """What a draft has written stays."""
        before = self.pool.clone() if self.is_initialized else None
        pool, _ = update(self, *states, **options)
        if before is not None:
            written = before.abs().sum((0, 2)) > 0
            pool[:, : before.shape[1]][:, written] = before[:, written]
        return pool, pool

    monkeypatch.setattr(PagedLayer, "update", keeping)
    with pytest.raises(ModelError, match="cannot take back a rejected draft"):
        try_out("uncropped", llama(dtype, depth, scale))


@pytest.mark.parametrize("kind", sorted(CONFIGS))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_kind_of_attention_passes(kind: str, dtype: torch.dtype) -> None:
    try_out(kind, packed(CONFIGS[kind], dtype))


def says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache tells no positions."""
    monkeypatch.setattr(PagedCache, "get_seq_length", lambda *_, **__: 0)


def sees_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches ignore windows and chunks."""
    mask = attention._group_mask

    def causal(group: Any, always: bool, **request: Any) -> Tensor | None:
        request |= {
            "mask_function": lambda _, __, query, key: key <= query,
            "local_size": None,
        }
        return mask(group, always, **request)

    monkeypatch.setattr(attention, "_group_mask", causal)


@pytest.mark.parametrize(
    ("kind", "limits", "fault"),
    [
        ("llama4", {"floor_scale": 40, "attention_chunk_size": 64}, says_nothing),
        ("llama4", {"attention_chunk_size": 40, "attn_temperature_tuning": False}, sees_everything),
        ("mistral", {"sliding_window": 40}, sees_everything),
        ("mistral", {"sliding_window": 1000}, sees_everything),
        ("gemma2", {"sliding_window": 200}, sees_everything),
        ("gemma3", {"sliding_window": 200}, sees_everything),
    ],
)
def test_what_changes_far_into_a_text_only_is_found(
    kind: str,
    limits: dict[str, Any],
    fault: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = type(CONFIGS[kind])(
        **CONFIGS[kind].to_dict() | limits | {"max_position_embeddings": 4096}
    )
    try_out(kind, packed(config))
    fault(monkeypatch)
    with pytest.raises(ModelError, match="behind a long text"):
        try_out(kind, packed(config))


@pytest.mark.parametrize(
    "layer",
    [
        lambda past, row: row + torch.arange(past, past + row.shape[1]).sum(),
        lambda past, row: row + 1 if past > 0 else row,
        lambda past, row: row + torch.ones(1, int(past) + row.shape[1]).sum(),
    ],
)
def test_a_layer_that_wants_one_position_for_all_sessions_is_refused(
    layer: Callable[[Any, Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = PagedCache.update

    def asking(
        self: PagedCache, key: Tensor, value: Tensor, index: int, **options: Any
    ) -> tuple[Tensor, Tensor]:
        key = layer(self.get_seq_length(index), key.transpose(1, 2)[..., 0]).sum() * 0 + key
        result: tuple[Tensor, Tensor] = update(self, key, value, index, **options)
        return result

    monkeypatch.setattr(PagedCache, "update", asking)
    with pytest.raises(ModelError, match="its attention cannot be batched") as caught:
        try_out("asking", llama(torch.float32, 2, 0.02))
    assert "\n" not in str(caught.value)


def test_a_model_without_a_cache_is_refused() -> None:
    config = OpenAIGPTConfig(vocab_size=128, n_embd=64, n_layer=3, n_head=4, n_positions=256)
    with pytest.raises(ModelError, match="behind a long text|take back a rejected draft"):
        try_out("openai-gpt", packed(config))


def test_a_model_that_asks_for_its_length_to_make_masks_passes() -> None:
    config = OPTConfig(
        vocab_size=128,
        hidden_size=64,
        word_embed_proj_dim=64,
        ffn_dim=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=256,
    )
    try_out("opt", packed(config))


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({}, 64),
        ({"sliding_window": 1000}, 2000),
        ({"sliding_window": 100_000}, 2**15),
        ({"sliding_window": None}, 64),
        ({"max_position_embeddings": 50}, 32),
        ({"max_position_embeddings": 30}, 0),
    ],
)
def test_how_far_it_looks(settings: dict[str, Any], length: int) -> None:
    base = CONFIGS["mistral"].to_dict() | {"max_position_embeddings": 2**17}
    model = packed(type(CONFIGS["mistral"])(**base | settings))
    assert far_length(model) == length


def test_limits_inside_other_settings_count() -> None:
    rope = CONFIGS["ministral3"].to_dict()["rope_parameters"]
    rope |= {"original_max_position_embeddings": 640}
    settings = {"rope_parameters": rope, "max_position_embeddings": 4096}
    config = type(CONFIGS["ministral3"])(**CONFIGS["ministral3"].to_dict() | settings)
    assert far_length(packed(config)) == 1280


@pytest.mark.usefixtures("sums_in_parts")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_model_that_finds_all_tokens_alike_passes(dtype: torch.dtype) -> None:
    model = llama(dtype, 2, 0.02)
    model._model.lm_head.weight.fill_(0.1)
    try_out("indifferent", model)


def test_a_dtype_that_the_weights_overflow() -> None:
    model = llama(torch.float16, 2, 0.02)
    model._model.lm_head.weight.fill_(torch.inf)
    with pytest.raises(ModelError, match="wide: it gives no numbers in torch.float16"):
        try_out("wide", model)
