"""Prompts for the bench: Python code that the demo pair was not trained on."""

from dsi_ray.demo.corpus import read_files, split_documents

_CHARS = 200


def held_out_code(count: int) -> list[str]:
    """Returns the beginnings of ``count`` pieces of the standard library, a file each at first."""
    files = [list(split_documents(text)) for text in read_files(held_out=True)]
    longest = max(map(len, files))
    pieces = [file[turn] for turn in range(longest) for file in files if turn < len(file)]
    return [_whole_lines(piece) for piece in pieces[:count]]


def _whole_lines(piece: str) -> str:
    return piece[: piece.find("\n", _CHARS) + 1] or piece
