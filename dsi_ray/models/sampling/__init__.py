"""From logits to the token that the model chooses: one pure function.

The token at a position depends on the logits there, the tokens before it, the request's parameters
and its seed, and on nothing else: no state, no generator that is used up, no neighbour in a batch.
"""

from dsi_ray.models.sampling.choice import choose, is_plain
from dsi_ray.models.sampling.occurrences import Occurrences

__all__ = ["Occurrences", "choose", "is_plain"]
