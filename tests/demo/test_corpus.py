"""The demo's training text."""

from dsi_ray.demo.corpus import DOCUMENT_CHARS, is_held_out, split_documents, stdlib_files


def test_some_files_are_held_out_and_the_rule_is_stable() -> None:
    files = stdlib_files()
    held_out = [path for path in files if is_held_out(path)]
    assert 0 < len(held_out) < len(files) / 10
    assert held_out == [path for path in files if is_held_out(path)]


def test_documents_are_cut_between_statements_and_lose_nothing() -> None:
    text = "\n\n".join(f"def function_{number}():\n    return {number}\n" for number in range(200))
    pieces = list(split_documents(text))
    assert len(pieces) > 1
    assert all(piece.startswith("def ") for piece in pieces)
    assert all(len(piece) < DOCUMENT_CHARS + 100 for piece in pieces)
    assert "".join(pieces).split() == text.split()
