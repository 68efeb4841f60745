"""Prompts for bench and profile: Python code that the demo pair was not trained on."""

from dsi_ray.demo import PROMPTS
from dsi_ray.demo.corpus import read_files, split_documents

_CHARS = 200


def held_out_code(count: int) -> list[str]:
    """Returns ``count`` prompts: those shipped with the pair, then other beginnings of files."""
    if count <= len(PROMPTS):
        return list(PROMPTS[:count])
    pieces = (piece for text in read_files(held_out=True) for piece in split_documents(text))
    return [*PROMPTS, *map(_whole_lines, pieces)][:count]


def _whole_lines(piece: str) -> str:
    return piece[: piece.find("\n", _CHARS) + 1] or piece
