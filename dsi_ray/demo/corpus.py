"""Python's own standard library, which every installation has: what the demo pair has learned.

Files are split into *documents* of a few top-level statements, so that the end of a document (and
with it the end-of-text token) is common enough to be learned.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

DOCUMENT_CHARS = 2400
HELD_OUT_ONE_IN = 20

# Tests are not part of every installation; the other folders are third-party code or long tables.
_SKIPPED_FOLDERS = frozenset(
    {"site-packages", "test", "tests", "idle_test", "encodings", "pydoc_data", "__pycache__"}
)
_BLOCK_START = re.compile(r"(?<=\n\n)(?=\S)")


def stdlib_files() -> list[Path]:
    """Return the standard library's source files, in a fixed order."""
    root = Path(sysconfig.get_path("stdlib"))
    return sorted(
        path
        for path in root.rglob("*.py")
        if not _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)
        and not path.name.startswith("_sysconfigdata")
    )


def is_held_out(path: Path) -> bool:
    """Tell whether a file is kept out of training; depends on its folder and name only."""
    digest = hashlib.sha256(f"{path.parent.name}/{path.name}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % HELD_OUT_ONE_IN == 0


def read_files(held_out: bool) -> list[str]:
    """Return the text of the training files or of the held-out ones."""
    chosen = [path for path in stdlib_files() if is_held_out(path) == held_out]
    texts = [path.read_text(encoding="utf-8", errors="ignore") for path in chosen]
    return [text for text in texts if text.strip()]


def split_documents(text: str) -> Iterator[str]:
    """Cut a file between top-level statements into pieces of at least `DOCUMENT_CHARS`."""
    piece = ""
    for block in _BLOCK_START.split(text):
        piece += block
        if len(piece) >= DOCUMENT_CHARS:
            yield piece.rstrip() + "\n"
            piece = ""
    if piece.strip():
        yield piece.rstrip() + "\n"
