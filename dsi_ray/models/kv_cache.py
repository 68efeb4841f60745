"""KV caches of many sessions: they shrink for free and stop a forward between two layers."""

import threading
from collections import OrderedDict
from functools import partial

from torch import Tensor
from transformers import Cache, DynamicLayer

from dsi_ray.models.base import ForwardCancelled
from dsi_ray.models.prefix import common_prefix


class Running:
    """The forward that runs now: one object, seen by all layers of all sessions of a model."""

    def __init__(self) -> None:
        self.stop = threading.Event()


class SessionLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, of shape (1, heads, tokens, head size).

    Of a sliding-window layer everything is kept, so that it can be cropped; the window is in the
    attention mask.
    """

    keys: Tensor
    values: Tensor

    # Buffers with room, written in place, were slower than the parent's copying on a CPU: the copy
    # brings the keys into its caches in one stream, where the attention then finds them.

    def __init__(self, running: Running) -> None:
        super().__init__()
        self._running = running

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Appends new tokens and returns all.

        Raises:
            ForwardCancelled: Before anything is appended. Each layer passes here once a forward.
        """
        if self._running.stop.is_set():
            raise ForwardCancelled
        keys, values = super().update(key_states, value_states)
        return keys, values

    def keep(self, length: int) -> None:
        """Drops all but the first ``length`` tokens, if there are more."""
        if self.get_seq_length() > length:
            self.keys = self.keys.narrow(-2, 0, length)
            self.values = self.values.narrow(-2, 0, length)


class Session:
    """One session's cache.

    Attributes:
        tokens: What every layer of the cache holds.
        cache: For transformers.
    """

    def __init__(self, running: Running) -> None:
        self.tokens: tuple[int, ...] = ()
        self.cache = Cache(layer_class_to_replicate=partial(SessionLayer, running))

    def keep(self, length: int) -> None:
        """Crops every layer to ``length`` tokens; a cancelled forward leaves them uneven."""
        self.tokens = self.tokens[:length]
        for layer in self.cache.layers:
            layer.keep(length)

    @property
    def lengths(self) -> set[int]:
        """The numbers of tokens that the layers hold: one number, unless a forward was cut off."""
        return {layer.get_seq_length() for layer in self._used_layers}

    @property
    def bytes(self) -> int:
        """What the layers hold."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self._used_layers)

    @property
    def _used_layers(self) -> list[SessionLayer]:
        # A layer that shares another's keys never gets any of its own.
        return [layer for layer in self.cache.layers if layer.is_initialized]


class SessionStore:
    """The sessions of a model, least recently used first, within a budget of bytes.

    Attributes:
        running: What every layer looks at before it goes on.
        evictions: Number of sessions dropped to stay within the budget.
    """

    def __init__(self, budget: int, bytes_per_token: int) -> None:
        self.running = Running()
        self.evictions = 0
        self._budget = budget
        self._bytes_per_token = bytes_per_token
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def bytes(self) -> int:
        """What all sessions hold."""
        tokens = sum(len(session.tokens) for session in self._sessions.values())
        return tokens * self._bytes_per_token

    def cached(self, key: str, tokens: tuple[int, ...]) -> int:
        """Returns how many of ``tokens``, from the first on, the session holds."""
        session = self._sessions.get(key)
        return 0 if session is None else common_prefix(session.tokens, tokens)

    def open(self, key: str) -> Session:
        """Returns the session, new if it is unknown, as the most recently used one."""
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(self.running)
        self._sessions.move_to_end(key)
        return session

    def make_room(self, tokens: int) -> None:
        """Evicts idle sessions until ``tokens`` more fit; never the most recently used one."""
        needed = self.bytes + tokens * self._bytes_per_token
        while needed > self._budget and len(self._sessions) > 1:
            _, session = self._sessions.popitem(last=False)
            needed -= len(session.tokens) * self._bytes_per_token
            self.evictions += 1

    def release(self, key: str) -> None:
        """Drops a session; an unknown one is fine."""
        self._sessions.pop(key, None)
