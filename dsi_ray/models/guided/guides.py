"""The guides of all requests on one server."""

from collections.abc import Callable

from torch import Tensor

from dsi_ray.core.path import Path
from dsi_ray.models.base import ModelError, RequestTooHard, Sampling
from dsi_ray.models.guided.compiler import GuideCompiler, GuideError
from dsi_ray.models.guided.walker import Walker
from dsi_ray.models.text.tokenizer import Tokenizer
from dsi_ray.params import Guide


class Guides:
    """Tells what the guide of each request allows; costs nothing before the first one."""

    def __init__(self, load_tokenizer: Callable[[], Tokenizer] | None, vocab_size: int) -> None:
        """Without a tokenizer all guides are ignored."""
        self._load_tokenizer = load_tokenizer
        self._vocab_size = vocab_size
        self._compiler: GuideCompiler | None = None
        self._walkers: dict[str, Walker] = {}

    def allowed(self, session: str, path: Path, rows: int, sampling: Sampling) -> Tensor | None:
        """Returns what may come at the last ``rows`` positions, up to the one after ``path``.

        Returns:
            Booleans of shape (rows, ids that server and target both know); None without a guide.

        Raises:
            RequestTooHard: The guide cannot be followed.
        """
        guide = sampling.params.guide
        if guide is None or self._load_tokenizer is None:
            return None
        compiler = self._compiler = self._compiler or self._load()
        if compiler is None:
            return None
        walker = self._walkers.get(session)
        if walker is None:
            walker = self._walkers[session] = self._start(
                compiler, guide, sampling, path.upto(sampling.prompt_tokens)
            )
        return walker.allowed(path, rows)

    def release(self, session: str) -> None:
        """Forgets a request; an unknown one is fine."""
        self._walkers.pop(session, None)

    def _load(self) -> GuideCompiler | None:
        try:
            tokenizer = self._load_tokenizer() if self._load_tokenizer else None
        except ModelError:
            # A drafter need not have one.
            self._load_tokenizer = None
            return None
        return None if tokenizer is None else GuideCompiler(tokenizer, self._vocab_size)

    def _start(
        self, compiler: GuideCompiler, guide: Guide, sampling: Sampling, prompt: Path
    ) -> Walker:
        try:
            matcher = compiler.matcher(guide)
        except GuideError as error:
            raise RequestTooHard(f"this form cannot be enforced: {error}", "guide") from error
        width = min(self._vocab_size, sampling.vocab_size)
        return Walker(matcher, sampling.end_ids, width, prompt)
