"""What hypothesis draws: any parameters for a small vocabulary, any logits and paths."""

from typing import Any

import torch
from hypothesis import strategies as st

from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams

VOCAB = 13
IDS = st.integers(0, VOCAB - 1)
PENALTIES = st.sampled_from([-2.0, -0.5, 0.0, 0.0, 0.25, 2.0])

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    "top_k": st.sampled_from([0, 1, 3, 8, 100]),
    "top_p": st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    "min_p": st.sampled_from([0.0, 0.05, 0.6]),
    "repetition_penalty": st.sampled_from([1.0, 0.5, 1.3, 8.0]),
    "presence_penalty": PENALTIES,
    "frequency_penalty": PENALTIES,
    "logit_bias": st.dictionaries(IDS, st.sampled_from([-100.0, -1.0, 0.5, 100.0]), max_size=4),
    "bad_token_ids": st.lists(IDS, max_size=3).map(tuple),
    "allowed_token_ids": st.none() | st.lists(IDS, min_size=7, unique=True).map(tuple),
    "min_tokens": st.integers(0, 6),
    "logprobs": st.sampled_from([None, 0, 3]),
}
"""At least seven ids are allowed and at most six forbidden, so that one is always left."""


@st.composite
def samplings(draw: st.DrawFn, **fixed: Any) -> Sampling:
    """Any parameters; ``fixed`` are as given."""
    fields = {name: draw(values) for name, values in FIELDS.items() if name not in fixed}
    params = SamplingParams(max_tokens=64, **(fields | fixed))
    return Sampling(
        params,
        prompt_tokens=draw(st.integers(1, 5)),
        end_ids=draw(st.frozensets(IDS, max_size=3)),
        seed=draw(st.integers(-(2**63), 2**63 - 1)),
        vocab_size=VOCAB,
    )


@st.composite
def forwards(draw: st.DrawFn) -> tuple[torch.Tensor, tuple[int, ...]]:
    """The logits of a block and the path that it is conditioned on."""
    path = draw(st.lists(IDS, min_size=1, max_size=14).map(tuple))
    rows = draw(st.integers(1, len(path)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    logits = torch.randn(rows, VOCAB, generator=generator, dtype=torch.float64)
    return logits * draw(st.sampled_from([0.5, 3.0])), path
