"""Hypothesis: the same examples on every run; ``HYPOTHESIS_PROFILE=search`` looks for new ones."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
_SEARCH_EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "2000"))

settings.register_profile(
    "check", derandomize=True, deadline=None, max_examples=60, suppress_health_check=_SLOW
)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=_SEARCH_EXAMPLES,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))
