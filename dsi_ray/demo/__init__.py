"""The demo pair: a real but tiny target and drafter for Python code, shipped with the package."""

import json
from pathlib import Path

_FOLDER = Path(__file__).parent

TARGET_DIR = _FOLDER / "target"
DRAFTER_DIR = _FOLDER / "drafter"

PROMPTS: tuple[str, ...] = tuple(json.loads((_FOLDER / "prompts.json").read_text("utf-8")))
"""Starts of standard library code that was kept out of training."""

__all__ = ["DRAFTER_DIR", "PROMPTS", "TARGET_DIR"]
