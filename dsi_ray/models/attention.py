"""An attention implementation for transformers whose masks are ready to use.

A block of k tokens after a cached prefix needs a mask. transformers makes a boolean one, which
torch turns into a float one again in each layer; here that happens once.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "dsi_ray_sdpa"


def additive_mask(*, dtype: torch.dtype, **request: Any) -> Tensor | None:
    """Returns 0 where attention is allowed and -inf elsewhere, or None where no mask is needed."""
    allowed = sdpa_mask(**request)
    if allowed is None:
        return None
    return torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, -torch.inf)


def use_additive_masks(model: Any) -> None:
    """Switches a model to this implementation if it runs on torch's attention."""
    if model.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, sdpa_attention_forward)
        AttentionMaskInterface.register(NAME, additive_mask)
        model.set_attn_implementation(NAME)
