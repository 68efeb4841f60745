"""From prompts to tokens, the same for whoever asks: HTTP and Python."""

from dataclasses import dataclass
from operator import index
from typing import Any

from dsi_ray.models.text.tokenizer import Tokenizer
from dsi_ray.runtime.errors import RequestError


@dataclass(frozen=True, slots=True)
class Prompts:
    """Refuses what cannot be a prompt, and does so before the work of tokenizing it.

    Attributes:
        tokenizer: The target's.
        max_model_len: Most tokens of prompt and output together.
    """

    tokenizer: Tokenizer
    max_model_len: int

    def encode(
        self, text: str, *, param: str = "prompt", add_special_tokens: bool = True
    ) -> list[int]:
        """Returns the tokens of a text.

        Raises:
            RequestError: It is no Unicode, or longer than the context whatever its tokens are.
        """
        if not is_unicode(text):
            raise RequestError("Must be valid Unicode", param)
        size = len(text.encode())
        if size > self.max_model_len * self.tokenizer.max_token_bytes:
            raise RequestError(
                f"the context holds {self.max_model_len} tokens, which are never as many as the "
                f"{size} bytes of this text: shorten it",
                param,
                code="context_length_exceeded",
            )
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def tokens(self, prompt: Any) -> list[int]:
        """Returns the tokens of a prompt: a text, or token ids.

        Raises:
            RequestError: It is neither, or a text that cannot be encoded.
        """
        if isinstance(prompt, str):
            return self.encode(prompt)
        try:
            if isinstance(prompt, bytes | bytearray | memoryview):
                raise TypeError
            return [_token_id(token) for token in prompt]
        except TypeError:
            raise RequestError("Must be a string or a list of token ids", "prompt") from None


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold ``text``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _token_id(token: Any) -> int:
    if isinstance(token, bool):
        raise TypeError
    return index(token)
