"""Parameters of a request that kills every target server that computes it."""

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
