"""How the drafts fared, in vLLM's words."""

from dataclasses import replace

import pytest

from dsi_ray.runtime.request import RequestStats
from dsi_ray.serving.speculation import speculation

STATS = RequestStats(
    prompt_tokens=3,
    completion_tokens=12,
    seconds=1.0,
    ttft_ms=1.0,
    tpot_ms=1.0,
    drafted_tokens=14,
    accepted_tokens=7,
    rejected_tokens=3,
    target_forwards=5,
    drafter_forwards=14,
    cancelled_tasks=0,
    messages=10,
    acceptance_histogram=(1, 1, 0, 2),
)


def test_the_figures_agree_with_each_other() -> None:
    metrics = speculation(STATS)
    assert metrics is not None
    told = metrics.speculative_decoding
    assert told.num_spec_steps == sum(told.acceptance_histogram) == 4
    assert told.num_accepted_draft_tokens == 7
    assert sum(n * count for n, count in enumerate(told.acceptance_histogram)) == 7
    assert len(told.acceptance_histogram) == told.num_spec_tokens + 1
    assert told.mean_acceptance_length == pytest.approx(1 + 7 / 4)
    assert told.draft_acceptance_rate == pytest.approx(7 / 14)


@pytest.mark.parametrize("stats", [None, replace(STATS, acceptance_histogram=())])
def test_without_drafts_there_is_nothing_to_tell(stats: RequestStats | None) -> None:
    assert speculation(stats) is None
