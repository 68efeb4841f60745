"""From committed tokens to chunks: log probabilities stay with their tokens."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dsi_ray.core.messages import FinishReason, TokenLogprobs
from dsi_ray.models.text.text_stream import TextStream
from dsi_ray.runtime.client.output_processor import OutputProcessor, complete
from dsi_ray.runtime.request import RequestStats, TokenChunk, join

STATS = RequestStats(1, 4, 1.0, 1.0, 1.0, 0, 0, 0, 4, 0, 0, 8, seed=3)


class Letters:
    """Id 0 is a, id 1 is b, and so on."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return "".join(chr(ord("a") + i) for i in ids)


def entries(*tokens: int) -> tuple[TokenLogprobs, ...]:
    """Log probabilities that tell whose they are."""
    return tuple(TokenLogprobs(-float(token)) for token in tokens)


def chunk(*tokens: int, last: bool = False) -> TokenChunk:
    """Committed tokens."""
    finish = FinishReason.LENGTH if last else None
    return TokenChunk(tokens, finish, STATS if last else None, entries(*tokens))


def test_they_come_with_their_tokens() -> None:
    reply = OutputProcessor(TextStream(Letters()))
    chunks = [*reply.push(chunk(1, 2)), *reply.push(chunk(3, last=True))]
    assert [c.logprobs for c in chunks] == [entries(1, 2), entries(3)]
    assert complete(chunks).logprobs == entries(1, 2, 3)
    assert complete(chunks).stats.seed == 3


def test_bug_7_none_are_left_of_what_a_stop_string_cuts_off() -> None:
    reply = OutputProcessor(TextStream(Letters(), stop=("d",)))
    chunks = [*reply.push(chunk(1, 2, 3, 4, 5)), *reply.push(chunk(6, last=True))]
    whole = complete(chunks)
    assert whole.tokens == (1, 2, 3)
    assert whole.logprobs == entries(1, 2, 3)


def test_whole_answers_are_joined_in_order() -> None:
    whole = join([chunk(1, 2), chunk(3, last=True)])
    assert whole == TokenChunk((1, 2, 3), FinishReason.LENGTH, STATS, entries(1, 2, 3))


@pytest.mark.parametrize("stop", [(), ("cd",), ("zz",)])
@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.STOP])
def test_each_token_has_an_offset(stop: tuple[str, ...], reason: FinishReason) -> None:
    reply = OutputProcessor(TextStream(Letters(), stop=stop))
    last = replace(chunk(3, 4), finish_reason=reason, stats=STATS)
    chunks = [*reply.push(chunk(1, 2)), *reply.push(last)]
    assert [len(c.offsets) for c in chunks] == [len(c.tokens) for c in chunks]
    assert [o for c in chunks for o in c.offsets] == list(range(sum(len(c.tokens) for c in chunks)))
