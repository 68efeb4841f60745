"""Closed forms: how long a decoding takes, from its acceptance trace alone.

A *trace* says of every position of the text whether the drafter guesses it. Nothing here knows a
tree, a task or a server.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from tests.core.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Run:
    """What is between two rejections: ``accepted`` drafts, then a token of the target's own.

    Attributes:
        accepted: How many drafts in a row are right.
        drafts: How many more tokens can be drafted when it begins: all but the text's last.
    """

    accepted: int
    drafts: int


def trace(scenario: Scenario) -> list[bool]:
    """Whether the first drafter guesses each token of the text, given those before it."""
    text, _ = scenario.expected
    path = (*scenario.prompt, *text)
    first = len(scenario.prompt)
    guesser = scenario.drafters[0]
    return [guesser(path[:i]) == path[i] for i in range(first, len(path))]


def runs(hits: Sequence[bool]) -> Iterator[Run]:
    """The runs of a text that ends at its limit: nobody drafts its last token."""
    begin = 0
    while begin < len(hits):
        end = begin
        while end < len(hits) - 1 and hits[end]:
            end += 1
        yield Run(accepted=end - begin, drafts=len(hits) - 1 - begin)
        begin = end + 1


def ideal_seconds(hits: Sequence[bool], target: int, drafter: int) -> int:
    """DSI with lookahead 1 and enough servers: each rejection costs its drafts and one forward."""
    return sum(run.accepted * drafter + target for run in runs(hits))


def block_seconds(
    hits: Sequence[bool], target: int, drafter: int, lookahead: int, servers: int
) -> int:
    """DSI with a lookahead that satisfies Equation 1 for ``servers``.

    After each rejection the ``servers`` take turns: the first at once, the others a block each. A
    token waits until its block is drafted; the text's last block is short, and comes before its
    turn, so that it may also wait for its server.
    """
    block = lookahead * drafter
    seconds = 0
    for run in runs(hits):
        blocks = ceil(run.accepted / lookahead)
        begin = blocks * block
        if blocks * lookahead > run.drafts:
            free = (blocks - servers) * block + target if blocks >= servers else 0
            begin = max(run.drafts * drafter, free)
        seconds += begin + target
    return seconds


def turns_seconds(hits: Sequence[bool], target: int, drafter: int, lookahead: int) -> int:
    """SI: drafts, then a forward, in turns."""
    seconds = position = 0
    while position < len(hits):
        drafts = min(lookahead, len(hits) - 1 - position)
        accepted = 0
        while accepted < drafts and hits[position + accepted]:
            accepted += 1
        seconds += drafts * drafter + target
        position += accepted + 1
    return seconds
