"""What a longer context costs where forwards do not get longer: messages and books."""

import itertools
from collections.abc import Callable
from statistics import median
from typing import Any

from dsi_ray.core.messages import Mode, Role, ServerId, Task
from dsi_ray.core.path import Path
from dsi_ray.experiments.online.online import cluster, dsi, engine
from dsi_ray.experiments.virtual.pair import Pair
from dsi_ray.models.base import Sampling
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.transport.lanes.bases import SentPaths
from dsi_ray.runtime.transport.lanes.frames import pack

CONTEXTS = (16, 8_192, 32_768, 100_000)
SP_DEGREE = 3
_DRAFTS = 4


def measure_contexts(
    target_ms: float,
    drafter_ms: float,
    traces: int,
    tokens: int,
    progress: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """A row for each length of the prompt: tokens a second while decoding, and bytes a task.

    The lengths take turns, so that all meet one noise.
    """
    pair = Pair.of(target_ms, drafter_ms, 0.8, tokens)
    params = SamplingParams(max_tokens=tokens, ignore_eos=True)
    measured: dict[int, list[float]] = {context: [] for context in CONTEXTS}
    with cluster(), engine(pair, SP_DEGREE) as running:
        for trace in range(traces + 1):
            for context in CONTEXTS:
                prompt = [trace, *[0] * (context - 1)]
                stats = running.generate(prompt, params, dsi(SP_DEGREE)).stats
                if trace:
                    # The first one warms everything up.
                    measured[context].append(stats.tpot_ms)
                    progress()
    shortest = median(measured[CONTEXTS[0]])
    return [
        {
            "context": context,
            "tokens_per_second": 1e3 / median(times),
            "relative": shortest / median(times),
            "task_bytes": task_bytes(context),
        }
        for context, times in measured.items()
    ]


def task_bytes(context: int) -> int:
    """Bytes on a lane of a verification, its server having had one of this request before."""
    path = Path.of(itertools.islice(itertools.cycle(range(10_000)), context))
    longer = path.extended(range(_DRAFTS))
    sent = SentPaths()
    sampling = Sampling(SamplingParams(), context)
    server = ServerId(Role.TARGET, 0)
    sent.begin(Task(1, "request", server, path, context), Mode.REPLACE, sampling)
    task = Task(2, "request", server, longer, context, 10 * context)
    return len(pack(sent.begin(task, Mode.QUEUE, sampling)))
