"""What a request counts for: read where its decoder and the coordinator keep it anyway."""

from itertools import accumulate

from dsi_ray.runtime.coordinator.in_flight import InFlightRequest
from dsi_ray.runtime.metrics import catalogue as names
from dsi_ray.runtime.metrics.snapshot import Key
from dsi_ray.runtime.request import histogram


def counts_of(active: InFlightRequest) -> dict[Key, float]:
    """The counters of a request so far; none of them ever falls."""
    decoder = active.member.decoder
    runs = histogram(decoder.tree.runs)
    committed = len(decoder.tree.tokens) - len(active.generation.prompt)
    counts: dict[Key, float] = {
        (names.DRAFTED_TOKENS,): decoder.counts.drafted_tokens,
        (names.ACCEPTED_TOKENS,): decoder.tree.accepted,
        (names.REJECTED_TOKENS,): decoder.tree.rejected,
        (names.DRAFT_RUNS,): sum(runs),
        (names.COMMITTED_TOKENS,): committed,
        (names.DECODED_TOKENS,): max(0, committed - 1),
        (names.DECODE_SECONDS,): active.last - active.first,
    }
    # From how many runs there are of 0, 1, 2, ... tokens to how many are longer than that.
    longer = list(accumulate(reversed(runs[1:])))[::-1]
    for position, accepted in enumerate(longer[: names.POSITIONS]):
        counts[names.ACCEPTED_AT_POSITION, str(position)] = accepted
    return counts
