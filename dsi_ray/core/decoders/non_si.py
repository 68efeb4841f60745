"""Plain decoding: the target alone, a token a forward."""

from dsi_ray.core.decoders.base import Decoder
from dsi_ray.core.messages import Command, Mode


class NonSI(Decoder):
    """One task on one target server, which goes on alone to the end."""

    def _next(self) -> list[Command]:
        server = self.targets[0]
        if self.verifying.active(server):
            return []
        return [self._verify(server, Mode.REPLACE, [self.tree.root], alone=True)]
