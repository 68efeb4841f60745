"""How the drafts of one generation fared, as vLLM reports it."""

from dsi_ray.runtime.request import RequestStats
from dsi_ray.serving.schema.answers import RequestMetrics, SpeculativeDecoding


def speculation(stats: RequestStats | None) -> RequestMetrics | None:
    """Returns what ``stats`` say about drafts; None where there were none."""
    if stats is None or not stats.acceptance_histogram:
        return None
    steps = sum(stats.acceptance_histogram)
    accepted = stats.accepted_tokens
    return RequestMetrics(
        speculative_decoding=SpeculativeDecoding(
            mean_acceptance_length=1 + accepted / steps,
            draft_acceptance_rate=accepted / stats.drafted_tokens,
            acceptance_histogram=list(stats.acceptance_histogram),
            num_spec_steps=steps,
            num_accepted_draft_tokens=accepted,
            num_draft_tokens=stats.drafted_tokens,
            num_spec_tokens=len(stats.acceptance_histogram) - 1,
        )
    )
