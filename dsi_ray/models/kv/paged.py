"""Keys and values of all sessions, in blocks: the cache that transformers writes to."""

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from dsi_ray.models.base import ForwardCancelled
from dsi_ray.models.forward.packing import running


class PagedLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values side by side, a slot a token: (heads, slots, sizes together).

    Of a sliding-window layer everything is kept, so that it can be cropped; the window is in the
    attention mask.
    """

    is_sliding = False
    pool: Tensor

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Makes an empty pool of the right shape."""
        size = key_states.shape[-1] + value_states.shape[-1]
        self.pool = key_states.new_zeros(key_states.shape[1], 0, size)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Writes the row's new tokens.

        Returns:
            The whole pool, twice; the attention reads from it what each session has.

        Raises:
            ForwardCancelled: Before anything is written. Each layer passes here once a forward.
        """
        whole = running()
        assert whole is not None, "a paged cache belongs to a packed forward"
        packing = whole.on(key_states.device)
        if packing.stop.is_set():
            raise ForwardCancelled
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.pool.shape[1] < packing.room:
            # With zeros: what is masked still must be a number.
            self.pool = pad(self.pool, (0, 0, 0, packing.room - self.pool.shape[1]))
        if packing.wiped is not None:
            self.pool.index_fill_(1, packing.wiped, 0)
        self.pool.index_copy_(1, packing.slots, torch.cat((key_states[0], value_states[0]), -1))
        return self.pool, self.pool

    def get_seq_length(self) -> int | Tensor:
        """How many tokens are before the row's: some layers find their positions so.

        Where sessions differ it is such a number for each token of the row. What can only use one
        for all of them (a range, a condition) fails: it cannot be batched.
        """
        packing = running()
        assert packing is not None, "a paged cache belongs to a packed forward"
        return (packing.on(self.pool.device) if self.is_initialized else packing).before

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Nothing to tell: masks are made elsewhere."""
        return query_length, 0

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class PagedCache(Cache):  # type: ignore[misc]
    """All layers' pools."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=PagedLayer)

    def get_seq_length(self, layer_idx: int | None = None) -> int | Tensor:
        """What a layer asks for itself: see `PagedLayer`.

        0 for the model as a whole: its positions are given, and its masks are made elsewhere.
        """
        if layer_idx is None:
            return 0
        # A layer asks before it has seen any tokens, too.
        known = layer_idx < len(self.layers)
        layer = self.layers[layer_idx] if known else PagedLayer()
        length: int | Tensor = layer.get_seq_length()
        return length

    @property
    def bytes_per_token(self) -> int:
        """What a slot takes in all layers; known after the first forward."""
        # A layer that shares another's keys never gets any of its own.
        pools = [layer.pool for layer in self.layers if layer.is_initialized]
        return sum(pool[:, 0].nbytes for pool in pools)
