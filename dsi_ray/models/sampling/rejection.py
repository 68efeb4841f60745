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

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from dsi_ray.models.base import Forwarded
from dsi_ray.models.hashing import position_key
from dsi_ray.models.sampling.noise import gumbel, random_bits, uniform

MOST_IDS = 512
MASS = 0.99
"""A draft is drawn from the drafter's likeliest tokens with this probability together, and from no
more than so many: few enough for a message. What is cut off is lost to the acceptance rate only."""

_ACCEPT, _RESAMPLE = range(2)
"""Purposes of noise; the key itself is for drawing."""


class Proposal(NamedTuple):
    """A draft and the distribution that it was drawn from.

    Attributes:
        token: The draft.
        ids: All that it could have been: integers.
        weights: Of each of them, float32; their sum may be any.
    """

    token: int
    ids: NDArray[numpy.integer[Any]]
    weights: NDArray[numpy.float32]

    def pack(self) -> bytes:
        """As it travels: 4 bytes for the token and 8 for each id."""
        token = self.token.to_bytes(4, "little")
        return token + self.ids.astype("<i4").tobytes() + self.weights.astype("<f4").tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The reverse of :meth:`pack`."""
        size = (len(data) - 4) // 8
        ids = numpy.frombuffer(data, "<i4", size, 4)
        weights = numpy.frombuffer(data, "<f4", size, 4 + 4 * size)
        return cls(int.from_bytes(data[:4], "little"), ids, weights)


def draw_drafts(scores: Tensor, keys: Sequence[int]) -> Forwarded:
    """Returns a draft for each row, and what it was drawn from.

    Args:
        scores: Of shape (rows, vocabulary), float64: log probabilities up to a constant.
        keys: Of each row's noise.
    """
    head = scores.topk(min(MOST_IDS, scores.shape[1]))
    q = (head.values - scores.logsumexp(-1, keepdim=True)).exp()
    # Drawn from exactly what is reported: after the cut, and rounded.
    weights = q.masked_fill(q.cumsum(-1) - q >= MASS, 0).float()
    noise = gumbel(keys, scores.shape[1], scores.device).gather(-1, head.indices)
    best = (weights.double().log() + noise).argmax(-1, keepdim=True)
    tokens: list[int] = head.indices.gather(-1, best)[:, 0].tolist()
    # The likeliest come first: what is cut off is behind them.
    sizes: list[int] = (weights > 0).sum(-1).tolist()
    rows = zip(tokens, head.indices.cpu().numpy(), weights.cpu().numpy(), sizes, strict=True)
    proposals = [Proposal(token, ids[:size], row[:size]).pack() for token, ids, row, size in rows]
    return Forwarded(tokens, proposals=proposals)


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


def _dense(proposals: Sequence[Proposal], vocab_size: int) -> Tensor:
    """The distributions that the drafts were drawn from: (rows, vocab_size), float64."""
    dense = numpy.zeros((len(proposals), vocab_size))
    for row, proposal in zip(dense, proposals, strict=True):
        row[proposal.ids] = proposal.weights / proposal.weights.sum(dtype=numpy.float64)
    return torch.from_numpy(dense)


def _for(purpose: int, keys: Sequence[int]) -> list[int]:
    return [position_key(key, purpose) for key in keys]
