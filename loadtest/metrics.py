"""From records to figures. Definitions: README.md."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from loadtest.record import Record
from loadtest.scenario import Slo

_PUNCTUAL_S = 0.01


class Distribution(BaseModel):
    """Of how many values, and how they are spread; percentiles are interpolated."""

    model_config = ConfigDict(frozen=True)

    count: int
    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Distribution | None":
        """None if there are no values."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        p50, p90, p99 = np.percentile(known, (50, 90, 99))
        return cls(count=len(known), mean=float(np.mean(known)), p50=p50, p90=p90, p99=p99)


class Goodput(BaseModel):
    """Requests that met every objective: how many a second, and their share of all sent."""

    model_config = ConfigDict(frozen=True)

    requests_per_s: float
    share: float


class Figures(BaseModel):
    """What a load came to. Latencies and throughputs are those of the requests that succeeded.

    Attributes:
        requests: All that were sent.
        failed: Of these, how many failed.
        errors: How often each kind of failure occurred.
        window_s: From the beginning of the load to the end of the last request.
        requests_per_s: Answers over the window.
        output_tokens_per_s: Tokens of the answers over the window.
        prompt_tokens: Tokens of the prompts.
        completion_tokens: Tokens of the answers.
        ttft_ms: Time to the first token, from when the request was due.
        tpot_ms: Of each request, the mean time of each token after the first.
        chunk_gap_ms: Gaps between pieces of text, which may hold several tokens: not TPOT.
        e2e_ms: Time to the last token, from when the request was due.
        send_lag_ms: Of all requests, how late they were sent.
        retry_after_s: What refused requests were told.
        tokens_per_chunk: Tokens of a piece of text, on average.
        most_in_flight: Most requests at once that were sent and not answered.
        most_unsent: Most requests at once that were due and not sent, timers' jitter apart.
        drafted_tokens: As the answers report them.
        accepted_tokens: Of the drafted tokens.
        acceptance_rate: The quotient of the two.
        mean_acceptance_length: Tokens of a draft that were accepted, and the target's own.
        goodput: None without objectives.
    """

    model_config = ConfigDict(frozen=True)

    requests: int
    failed: int
    errors: dict[str, int]
    window_s: float
    requests_per_s: float
    output_tokens_per_s: float | None
    prompt_tokens: int
    completion_tokens: int
    ttft_ms: Distribution | None
    tpot_ms: Distribution | None
    chunk_gap_ms: Distribution | None
    e2e_ms: Distribution | None
    send_lag_ms: Distribution | None
    retry_after_s: Distribution | None
    tokens_per_chunk: float | None
    most_in_flight: int
    most_unsent: int
    drafted_tokens: int | None
    accepted_tokens: int | None
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    goodput: Goodput | None


def figures(records: Sequence[Record], slo: Slo) -> Figures:
    """Computes the figures of one load; there must be at least one record."""
    succeeded = [record for record in records if record.error is None]
    errors = Counter(record.error for record in records if record.error is not None)
    window = max(record.end_s for record in records)
    tokens = sum(record.completion_tokens or 0 for record in succeeded)
    chunks = sum(len(record.chunks_s) for record in succeeded)
    drafts = [record.drafts for record in succeeded if record.drafts is not None]
    drafted = sum(draft.num_draft_tokens for draft in drafts)
    accepted = sum(draft.num_accepted_draft_tokens for draft in drafts)
    steps = sum(draft.num_spec_steps for draft in drafts)
    return Figures(
        requests=len(records),
        failed=errors.total(),
        errors=dict(errors.most_common()),
        window_s=window,
        requests_per_s=len(succeeded) / window,
        output_tokens_per_s=tokens / window if tokens else None,
        prompt_tokens=sum(record.prompt_tokens or 0 for record in succeeded),
        completion_tokens=tokens,
        ttft_ms=_milliseconds(succeeded, lambda record: record.ttft_s),
        tpot_ms=_milliseconds(succeeded, lambda record: record.tpot_s),
        chunk_gap_ms=Distribution.of(
            1e3 * (after - before)
            for record in succeeded
            for before, after in pairwise(record.chunks_s)
        ),
        e2e_ms=_milliseconds(succeeded, lambda record: record.e2e_s),
        send_lag_ms=_milliseconds(records, lambda record: record.sent_s - record.scheduled_s),
        retry_after_s=Distribution.of(record.retry_after_s for record in records),
        tokens_per_chunk=tokens / chunks if tokens and chunks else None,
        most_in_flight=most_at_once((record.sent_s, record.end_s) for record in records),
        most_unsent=most_at_once(
            (record.scheduled_s, record.sent_s)
            for record in records
            if record.sent_s - record.scheduled_s > _PUNCTUAL_S
        ),
        drafted_tokens=drafted if drafts else None,
        accepted_tokens=accepted if drafts else None,
        acceptance_rate=accepted / drafted if drafted else None,
        mean_acceptance_length=1 + accepted / steps if steps else None,
        goodput=_goodput(records, slo, window),
    )


def is_good(record: Record, slo: Slo) -> bool:
    """Whether a request succeeded and met every objective; one without a TPOT meets that one."""
    if record.error is not None:
        return False
    limits = (
        (record.ttft_s, slo.ttft_ms),
        (record.tpot_s, slo.tpot_ms),
        (record.e2e_s, slo.e2e_ms),
    )
    return all(
        seconds is None or limit is None or seconds * 1e3 <= limit for seconds, limit in limits
    )


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """The largest number of spans that overlap; one ends before another begins at that time."""
    changes = sorted(
        change for begin, end in spans if begin < end for change in ((begin, 1), (end, -1))
    )
    return int(np.cumsum([step for _, step in changes]).max(initial=0))


def _milliseconds(
    records: Iterable[Record], seconds: Callable[[Record], float | None]
) -> Distribution | None:
    values = map(seconds, records)
    return Distribution.of(1e3 * value for value in values if value is not None)


def _goodput(records: Sequence[Record], slo: Slo, window: float) -> Goodput | None:
    if slo == Slo():
        return None
    good = sum(is_good(record, slo) for record in records)
    return Goodput(requests_per_s=good / window, share=good / len(records))
