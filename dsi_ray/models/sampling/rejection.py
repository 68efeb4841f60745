"""Verification by rejection sampling (Leviathan et al., ICML 2023; Chen et al., arXiv 2302.01318).

A drafter draws ``x`` from its distribution ``q``. The target, whose distribution is ``p``, accepts
it with probability ``min(1, p(x) / q(x))``, and otherwise draws from what ``p`` has more of than
``q``. Either way the token has the law ``p``, and it equals the draft with probability
``sum min(p, q)``, the most there is.

The token is one function of the path and the seed for each ``(x, q)``, and another where there is
no draft: then it is drawn from ``p``. Two conditions make the text have the target's law whichever
of them decides a position:

- Whether to accept, and what to draw then, must not know the noise that drew ``x``: each purpose
  has noise of its own. Where there is no draft, ``p`` is drawn from with the drafter's noise, so
  that drafts that come too late, or are the first of the next block, agree as often as they can.
- Which of the verdicts on a position counts must not depend on the noise there. The first that
  arrives does, so times must not depend on it: the decoder does not look at what was drafted, nor
  do servers before they compute the verdict, and the noise after one path is unrelated to that
  after any other.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from dsi_ray.models.base import Forwarded
from dsi_ray.models.hashing import position_key
from dsi_ray.models.sampling.noise import gumbel, random_bits, uniform

HEAD = 32
"""A draft is drawn from this many of the drafter's likeliest tokens: few enough for a message."""

_ACCEPT, _RESAMPLE = range(2)
"""Purposes of noise; the key itself is for drawing."""


class Proposal(NamedTuple):
    """A draft and the distribution that it was drawn from.

    Attributes:
        token: The draft.
        ids: All that it could have been.
        weights: Of each of them, in float32; they add up to about 1.
    """

    token: int
    ids: tuple[int, ...]
    weights: tuple[float, ...]

    def pack(self) -> bytes:
        """As it travels: 4 bytes for the token and 8 for each id."""
        size = len(self.ids)
        return struct.pack(f"<{1 + size}i{size}f", self.token, *self.ids, *self.weights)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The reverse of :meth:`pack`."""
        size = (len(data) - 4) // 8
        token, *rest = struct.unpack(f"<{1 + size}i{size}f", data)
        return cls(token, tuple(rest[:size]), tuple(rest[size:]))


def draw_drafts(scores: Tensor, keys: Sequence[int]) -> Forwarded:
    """Returns a draft for each row, and what it was drawn from.

    Args:
        scores: Of shape (rows, vocabulary), float64: log probabilities up to a constant.
        keys: Of each row's noise.
    """
    head = scores.topk(min(HEAD, scores.shape[1]))
    # Drawn from exactly what is reported.
    weights = head.values.softmax(-1).float()
    noise = gumbel(keys, scores.shape[1], scores.device).gather(-1, head.indices)
    best = (weights.double().log() + noise).argmax(-1, keepdim=True)
    tokens: list[int] = head.indices.gather(-1, best)[:, 0].tolist()
    rows = zip(tokens, head.indices.tolist(), weights.tolist(), strict=True)
    return Forwarded(tokens, proposals=[_proposal(*row).pack() for row in rows])


def accept_or_resample(scores: Tensor, keys: Sequence[int], proposals: Sequence[bytes]) -> Tensor:
    """Returns each row's verdict on its draft: the draft, or another token.

    Args:
        scores: Of shape (rows, vocabulary), float64: log probabilities up to a constant.
        keys: Of each row's noise, the drafter's too.
        proposals: One for each row.

    Returns:
        Ids of shape (rows,).
    """
    unpacked = [Proposal.unpack(data) for data in proposals]
    drafts = torch.tensor([[proposal.token] for proposal in unpacked], device=scores.device)
    p = scores.softmax(-1)
    q = _dense(unpacked, p.shape[1]).to(p.device)
    chance = uniform(random_bits(_for(_ACCEPT, keys), 1, p.device))
    excess = (p - q).clamp_(min=0)
    # Where p and q are equal up to rounding nothing may be left to draw from.
    nothing_left = excess.amax(-1, keepdim=True) == 0
    accepted = (chance * q.gather(-1, drafts) < p.gather(-1, drafts)) | nothing_left
    noise = gumbel(_for(_RESAMPLE, keys), p.shape[1], p.device)
    resampled = (excess.log_() + noise).argmax(-1, keepdim=True)
    return torch.where(accepted, drafts, resampled)[:, 0]


def _proposal(token: int, ids: list[int], weights: list[float]) -> Proposal:
    possible = [(i, weight) for i, weight in zip(ids, weights, strict=True) if weight > 0]
    return Proposal(token, *zip(*possible, strict=True))


def _dense(proposals: Sequence[Proposal], vocab_size: int) -> Tensor:
    """The distributions that the drafts were drawn from: (rows, vocab_size), float64."""
    dense = torch.zeros(len(proposals), vocab_size, dtype=torch.float64)
    for row, proposal in zip(dense, proposals, strict=True):
        weights = torch.tensor(proposal.weights, dtype=torch.float64)
        row[list(proposal.ids)] = weights / weights.sum()
    return dense


def _for(purpose: int, keys: Sequence[int]) -> list[int]:
    return [position_key(key, purpose) for key in keys]
