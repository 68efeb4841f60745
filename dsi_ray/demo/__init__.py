"""The demo pair: a real but tiny target and drafter for Python code, shipped with the package.

`train` makes the models and `evaluate` measures them; using them needs neither.
"""

from pathlib import Path

TARGET_DIR = Path(__file__).parent / "target"
DRAFTER_DIR = Path(__file__).parent / "drafter"

__all__ = ["DRAFTER_DIR", "TARGET_DIR"]
