"""Muon for the weight matrices, Adam for everything else.

Muon (orthogonalised momentum) needs clearly fewer tokens than Adam for the same loss, and tokens
are what a CPU is short of.  torch has a Muon of its own, but works through the matrices one by
one; the demo models have hundreds of equal, small ones, so these are stacked and done together.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor, nn

_MOMENTUM = 0.95
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NEWTON_SCHULZ_STEPS = 5


def orthogonalise(matrices: Tensor) -> Tensor:
    """Replace each matrix of a stack by (nearly) the closest orthogonal one."""
    a, b, c = _NEWTON_SCHULZ
    tall = matrices.size(-2) > matrices.size(-1)
    x: Tensor = matrices.mT if tall else matrices
    x = x.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(-2, -1) if tall else x


class Optimizer:
    """Both optimizers behind one `step`, with learning rates given as a factor each time."""

    def __init__(self, model: nn.Module, muon_rate: float, adam_rate: float) -> None:
        self._muon_rate = muon_rate
        self._adam_rate = adam_rate
        self._stacks: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        others: list[nn.Parameter] = []
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "embed" not in name:
                self._stacks[parameter.shape].append(parameter)
            else:
                others.append(parameter)
        self._momenta = {
            shape: torch.zeros(len(stack), *shape) for shape, stack in self._stacks.items()
        }
        self._adam = torch.optim.Adam(others, betas=(0.9, 0.95), fused=True)
        self._parameters = list(model.parameters())

    def step(self, factor: float) -> None:
        """Apply the gradients with `factor` times the learning rates, and clear them."""
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for group in self._adam.param_groups:
            group["lr"] = self._adam_rate * factor
        self._adam.step()
        for shape, stack in self._stacks.items():
            self._muon_step(shape, stack, self._muon_rate * factor)
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def _muon_step(self, shape: torch.Size, stack: list[nn.Parameter], rate: float) -> None:
        gradients = torch.stack([torch.zeros_like(p) if p.grad is None else p.grad for p in stack])
        momentum = self._momenta[shape]
        momentum.lerp_(gradients, 1 - _MOMENTUM)
        updates = orthogonalise(gradients.lerp(momentum, _MOMENTUM))
        rate *= max(1.0, shape[0] / shape[1]) ** 0.5
        for parameter, update in zip(stack, updates, strict=True):
            parameter.mul_(1 - 0.1 * rate).sub_(update, alpha=rate)
