"""A drafter that is lost for good: what DSI costs then against plain decoding, on the demo pair."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsi_ray.config import EngineConfig
from dsi_ray.demo import DRAFTER_DIR, PROMPTS
from dsi_ray.experiments.bench.bench import Bench, baselines, dsi
from dsi_ray.params import SamplingParams
from dsi_ray.runtime.client.engine import Engine

_POLL_S = 0.05


def study(
    prompts: int, tokens: int, progress: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """Decodes with the drafter and without it, plainly and with DSI in turns; a row each.

    The drafter's checkpoint is gone when the drafter dies, so that none can start in its place:
    it is tried again and again all the same, as it would be in service.
    """
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "drafter"
        shutil.copytree(DRAFTER_DIR, checkpoint)
        config = EngineConfig.model_validate({"drafters": [str(checkpoint)]})
        with Engine(config) as engine:
            rows = [_row("alive", engine, prompts, tokens, progress)]
            shutil.rmtree(checkpoint)
            _kill_drafter(engine)
            rows.append(_row("lost for good", engine, prompts, tokens, progress))
    return rows


def steps(prompts: int) -> int:
    """How often :func:`study` reports progress."""
    return 2 * 2 * (prompts + 1)


def _kill_drafter(engine: Engine) -> None:
    (group,) = asyncio.run(engine.status())["groups"]
    (pid,) = (s["pid"] for s in group["servers"] if s["server"].startswith("drafter"))
    os.kill(pid, signal.SIGKILL)
    while not asyncio.run(engine.status())["groups"][0]["lost"]:
        time.sleep(_POLL_S)


def _row(
    drafter: str, engine: Engine, prompts: int, tokens: int, progress: Callable[[], None]
) -> dict[str, Any]:
    texts = [engine.tokenizer.encode(text) for text in PROMPTS[:prompts]]
    contenders = [*baselines(engine)[:1], dsi(engine)]
    bench = Bench(contenders, texts, SamplingParams(max_tokens=tokens, ignore_eos=True))
    non_si, ours = bench.run(progress)
    return {
        "drafter": drafter,
        "non_si_tokens_per_second": non_si.tokens_per_second,
        "dsi_tokens_per_second": ours.tokens_per_second,
        "ratio": ours.tokens_per_second / non_si.tokens_per_second,
        "identical_tokens": ours.identical_tokens,
    }
