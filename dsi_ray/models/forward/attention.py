"""Attention over packed sessions, by the model's own function.

The mask, which says who sees whom, is made once a forward and not in each layer.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from dsi_ray.models.base import ModelError
from dsi_ray.models.forward.packing import AttentionBucket, running

SDPA, EAGER = "dsi_ray_sdpa", "dsi_ray_eager"

Mask = list[Tensor | None]
"""Of each group: (sessions, 1, queries, keys), 0 where attention is allowed, else -inf.

None where torch's attention needs no mask.
"""


def use_packed_attention(model: Any) -> None:
    """Switches a model's attention, sdpa or eager; forwards of transformers' own still work.

    Raises:
        ModelError: The model has another kind of attention.
    """
    names = {"sdpa": SDPA, "eager": EAGER, SDPA: SDPA, EAGER: EAGER}
    name = names.get(model.config._attn_implementation)
    if name is None:
        raise ModelError(
            f"{model.config.model_type}: attention {model.config._attn_implementation} cannot be "
            "batched; use a model with plain attention in every layer"
        )
    AttentionInterface.register(SDPA, partial(_attend, sdpa_attention_forward))
    AttentionInterface.register(EAGER, partial(_attend, _eager_attention_forward))
    AttentionMaskInterface.register(SDPA, make_mask)
    AttentionMaskInterface.register(EAGER, partial(make_mask, always=True))
    model.set_attn_implementation(name)


def make_mask(*, always: bool = False, **request: Any) -> Mask | Tensor | None:
    """Returns the mask of the forward that runs, as transformers asks for it."""
    packing = running()
    if packing is None:
        # transformers' own forward: one session, with a cache of its own or none.
        request["allow_is_causal_skip"] &= not always
        return _additive(sdpa_mask(**request), request["dtype"])
    return [_group_mask(group, always, **request) for group in packing.groups]


def _group_mask(
    group: AttentionBucket,
    always: bool,
    *,
    mask_function: Callable[..., Tensor],
    dtype: torch.dtype,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    **_: Any,
) -> Tensor | None:
    """Keys lie in the order of their positions: a causal mask hides what pads them, too."""
    sees_all = allow_is_causal_skip and (local_size is None or group.keys < local_size)
    causal = group.queries == 1 or (group.queries == group.keys and not always)
    if group.sessions == 1 and sees_all and causal:
        return None
    device = group.positions.device
    here = torch.zeros((), dtype=torch.long, device=device)
    keys = torch.arange(group.keys, device=device)
    allowed = mask_function(here, here, group.positions[:, None, :, None], keys)
    return _additive(allowed, dtype)


def _additive(allowed: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """torch would turn a boolean mask into this in each layer again."""
    if allowed is None:
        return None
    return torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, -torch.inf)


def _attend(
    own: Callable[..., tuple[Tensor, Any]],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    **options: Any,
) -> tuple[Tensor, Any]:
    """Calls the model's ``own`` attention on each group; ``key`` is the layer's pool."""
    if not isinstance(attention_mask, list):
        return own(module, query, key, value, attention_mask, **options)
    packing = running()
    assert packing is not None, "groups have masks of their own in a packed forward only"
    outputs = []
    for group, mask in zip(packing.on(query.device).groups, attention_mask, strict=True):
        keys, values = group.read(key, query.shape[-1])
        output, _ = own(module, group.select(query), keys, values, mask, **options)
        outputs.append(group.join(output))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1), None


def _eager_attention_forward(module: torch.nn.Module, *args: Any, **options: Any) -> Any:
    """What the model's authors wrote; some add a cap or a sink there."""
    return sys.modules[type(module).__module__].eager_attention_forward(module, *args, **options)
