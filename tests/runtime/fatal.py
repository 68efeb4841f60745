"""Parameters of requests that kill the processes that handle them."""

import os
import signal
import threading

from dsi_ray.core.messages import Role
from dsi_ray.params import SamplingParams


class FatalParams(SamplingParams):
    """Greedy; but to choose a token in a target server's forward is its end."""

    @property
    def is_greedy(self) -> bool:
        """Looked at in each forward, in the server's own thread for them."""
        if threading.current_thread().name.startswith(Role.TARGET):
            os.kill(os.getpid(), signal.SIGKILL)
        return True


class StrayParams(SamplingParams):
    """Greedy; but at the end of its text the coordinator meets an exception of no known kind."""

    @property
    def is_greedy(self) -> bool:
        """Looked at by the coordinator for the figures of the request, in its event loop."""
        if threading.current_thread().name.startswith("AsyncIO"):
            raise RuntimeError("a stray exception")
        return True
