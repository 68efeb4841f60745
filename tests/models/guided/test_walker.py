"""What a guide allows: by brute force, on every path, forwards and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsi_ray.config import ModelConfig
from dsi_ray.models.base import ModelError
from dsi_ray.models.guided.compiler import GuideCompiler, GuideError
from dsi_ray.models.guided.walker import Walker
from dsi_ray.models.text.tokenizer import load_tokenizer
from dsi_ray.params import Guide
from tests.models.guided.pieces import COMPILER, END, ENDS, PIECES, expected, language, text, walker

LONGEST = 6
GUIDES = [
    Guide("regex", "abc"),
    Guide("regex", "(ab|bc){1,2}"),
    Guide("regex", "a?b?c?"),
    Guide("regex", "[ab]c{0,3}"),
    Guide("regex", "(a|ab)(c|bcb)"),
    Guide("regex", "[^b]{2,3}b"),
    Guide("choice", choices=("a", "abc", "ca")),
    Guide("choice", choices=("bcbc", "bca", '"a"')),
]
guides = pytest.mark.parametrize("guide", GUIDES, ids=str)
IDS = st.integers(0, len(PIECES) - 1)
PATHS = st.lists(IDS, max_size=5).map(tuple)


def rows(allowed: Any) -> list[set[int]]:
    """The allowed ids of each row."""
    return [set(row.nonzero().flatten().tolist()) for row in allowed]


def texts(guide: Guide) -> frozenset[str]:
    """The language of a guide; only words that the vocabulary can begin matter."""
    return language(guide, LONGEST)


@guides
def test_as_brute_force_on_every_path(guide: Guide) -> None:
    words, walk = texts(guide), walker(guide)
    # In "[^b]" there are letters that only brute force does not know.
    known = {i for i, piece in enumerate(PIECES) if guide.kind == "choice" or b'"' not in piece}
    paths: list[tuple[int, ...]] = [()]
    for path in paths:
        (found,) = rows(walk.allowed(path, 1))
        assert found & known == expected(words, path), text(path)
        paths += [(*path, token) for token in sorted((found & known) - {END})]
    assert len(paths) > 3


@guides
@given(data=st.data())
def test_back_and_forth_is_as_fresh(guide: Guide, data: st.DataObject) -> None:
    walk = walker(guide)
    for path in data.draw(st.lists(PATHS, max_size=8)):
        count = data.draw(st.integers(1, len(path) + 3))
        assert rows(walk.allowed(path, count)) == rows(walker(guide).allowed(path, count))


@given(PATHS)
def test_rows_of_a_block_are_those_of_single_forwards(path: tuple[int, ...]) -> None:
    guide = GUIDES[1]
    block = rows(walker(guide).allowed(path, len(path) + 1))
    single = [rows(walker(guide).allowed(path[:n], 1))[0] for n in range(len(path) + 1)]
    assert block == single


def test_behind_a_forbidden_token_or_the_end_everything_is_allowed() -> None:
    everything = set(range(len(PIECES)))
    found = rows(walker(GUIDES[0]).allowed((2, 4, 2), 4))
    assert found[1:] == [{3, 6}, everything, everything]
    assert rows(walker(GUIDES[0]).allowed((7, END, 2), 3)) == [{END}, everything, everything]


def test_rows_of_the_prompt_allow_everything() -> None:
    assert rows(walker(GUIDES[0]).allowed((), 3))[:2] == [set(range(len(PIECES)))] * 2


def test_a_stop_id_ends_a_complete_text() -> None:
    ends = frozenset({END, 4})
    assert rows(walker(GUIDES[0], ends).allowed((7,), 1)) == [{END, 4}]


def test_a_text_that_no_token_can_go_on_ends() -> None:
    walk = walker(Guide("regex", "axa|bb"))
    assert rows(walk.allowed((2,), 2)) == [{2, 3}, {END}]
    assert rows(walk.allowed((3, 3), 2)) == [{3}, {END}]


def test_an_end_that_a_drafter_does_not_know_leaves_everything() -> None:
    beyond = frozenset({len(PIECES)})
    assert rows(walker(GUIDES[0], beyond).allowed((7,), 1)) == [set(range(len(PIECES)))]


def test_a_guide_that_takes_too_much_fails_its_own_request_only() -> None:
    greedy = Guide("regex", "aaaa(([a-c]{1,500}){1,500}){1,500}")
    for _ in range(2):
        assert walker(greedy).allowed((), 1).any()
        with pytest.raises(ModelError, match="any further: its repetitions") as caught:
            walker(greedy).allowed((2,) * 80, 81)
        assert "\n" not in str(caught.value) and "state" not in str(caught.value)


def test_ids_that_only_the_target_knows_stop_the_walk() -> None:
    found = rows(walker(GUIDES[0]).allowed((2, len(PIECES) + 5), 2))
    assert found == [{3, 6}, set(range(len(PIECES)))]


@pytest.mark.parametrize(
    ("kind", "given_text", "reason"),
    [
        ("regex", "(", "unclosed group"),
        ("regex", "a(?=b)", "look-around"),
        ("json_schema", "{", "Expecting property name"),
        ("json_schema", "[]", "a schema is an object"),
        ("json_schema", '{"type": "text"}', "Invalid type"),
        ("json_schema", '{"not": {}}', "Unimplemented"),
        ("json_schema", '{"x-guidance": {"lenient": true}, "not": {}}', "Unimplemented"),
        ("json_schema", '{"$ref": "http://localhost/schema"}', "localhost"),
        ("json_schema", '{"minimum": 2, "maximum": 1, "type": "integer"}', "Unsatisfiable"),
        ("json_schema", '{"items":' * 1000 + "{}" + "}" * 1000, ""),
        ("json_schema", '{"enum": [NaN]}', ""),
        ("regex", "x", "no text of these tokens"),
    ],
)
def test_what_cannot_be_enforced_is_refused_in_one_line(
    kind: Any, given_text: str, reason: str
) -> None:
    with pytest.raises(GuideError) as caught:
        COMPILER.matcher(Guide(kind, given_text))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) <= 300
    for internal in ("start:", "%", 'x-guidance":', "state", "(in regex)", "NoExtension"):
        assert internal not in str(caught.value)


def optional(count: int) -> Guide:
    """An object of which each property may be left out."""
    properties = {f"p{i}": {"type": "string"} for i in range(count)}
    return Guide("json_schema", json.dumps({"type": "object", "properties": properties}))


@pytest.mark.parametrize(
    ("guide", "reason"),
    [
        (Guide("regex", "((a{1,1000}){1,1000}){1,1000}"), "repetitions"),
        (Guide("regex", "(([a-c]{1,500}){1,500}){1,500}"), "repetitions"),
        (optional(500), "optional properties"),
        (optional(50), None),
        (Guide("regex", "|".join(f"word{i}" for i in range(1400))), None),
        (Guide("choice", choices=tuple(f"o{i}" for i in range(1400))), None),
        (Guide("regex", "[^\\x00-\\U0010fffe]"), None),
    ],
    ids=str,
)
def test_what_is_too_much_shows_before_the_text_begins(guide: Guide, reason: str | None) -> None:
    compiler = GuideCompiler(load_tokenizer(ModelConfig(model="demo")), 2048)
    if reason is None:
        compiler.check(guide)
        return
    with pytest.raises(GuideError, match=reason):
        compiler.check(guide)


@pytest.mark.parametrize(
    ("regex", "written"),
    [
        ("a/b", "a/b"),
        (r"a\/b", "a/b"),
        ("a\nb", "a\nb"),
        (r'"\d+"', '"12"'),
        ("[/]", "/"),
        (r"\\", "\\"),
        ("a // b", "a // b"),
        (" ", " "),
        ("[äö🙂]", "🙂"),
    ],
)
def test_regexes_with_signs_that_mean_something_else_around(regex: str, written: str) -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    compiler = GuideCompiler(tokenizer, 2048)
    walk = Walker(compiler.matcher(Guide("regex", regex)), ENDS, 2048)
    path = tuple(tokenizer.encode(written))
    found = rows(walk.allowed(path, len(path) + 1))
    assert all(token in row for token, row in zip(path, found, strict=False))
    assert found[-1] == {END}
    assert not any(tokenizer.special_ids & row for row in found[:-1])


@pytest.mark.parametrize("schema", ["true", "{}", '{"type": "boolean"}'])
def test_schemas_without_much(schema: str) -> None:
    tokenizer = load_tokenizer(ModelConfig(model="demo"))
    walk = Walker(GuideCompiler(tokenizer, 2048).matcher(Guide("json_schema", schema)), ENDS, 2048)
    assert rows(walk.allowed(tuple(tokenizer.encode("true")), 1)) == [{END}]
