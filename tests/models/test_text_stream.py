"""Text comes out whole, whatever the tokens, the blocks and the stop strings."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dsi_ray.models.text.text_stream import TextStream

SAMPLES = [
    "def main():\n    print('héllo')\n\n\nreturn  x\t# done\r\n",
    "naïve café — “quoted” … ½ 日本語のテキスト 한국어",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag, 🏽 tone, 🙂🙃 faces, e\u0301 combined",
    "   leading and trailing   ",
]


class ByteLevel:
    """A byte-level BPE with so few merges that most characters take several tokens."""

    def __init__(self) -> None:
        self.backend = Tokenizer(models.BPE())
        self.backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=280,
            special_tokens=["<|end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self.backend.train_from_iterator(SAMPLES, trainer)

    def encode(self, text: str) -> list[int]:
        return self.backend.encode(text).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)


class ByteFallback:
    """A vocabulary of words that start with a space mark, and of single bytes."""

    WORDS = ["<s>", "▁", "▁Hello", "▁world", "x", "ing"]

    def __init__(self) -> None:
        entries = [*self.WORDS, *(f"<0x{byte:02X}>" for byte in range(256))]
        vocab = {word: index for index, word in enumerate(entries)}
        self.backend = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
        self.backend.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
        self.backend.add_special_tokens(["<s>"])
        self.vocab = vocab

    def ids(self, *words: str) -> list[int]:
        return [self.vocab[word] for word in words]

    def utf8(self, text: str) -> list[int]:
        return self.ids(*(f"<0x{byte:02X}>" for byte in text.encode()))

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)


BYTE_LEVEL = ByteLevel()
FALLBACK = ByteFallback()

texts = st.one_of(st.sampled_from(SAMPLES), st.text(max_size=30))
outputs = st.one_of(texts.map(BYTE_LEVEL.encode), st.lists(st.integers(0, 279), max_size=30))
stops = st.lists(st.text("aeiou \n:🙂é", min_size=1, max_size=4), max_size=4)


def blocks(tokens: list[int], seed: int) -> list[list[int]]:
    """Cuts ``tokens`` at random places; some blocks are empty."""
    rng = random.Random(seed)
    cuts = sorted(rng.choices(range(len(tokens) + 1), k=rng.randrange(6)))
    return [tokens[a:b] for a, b in zip([0, *cuts], [*cuts, len(tokens)], strict=True)]


def run(stream: TextStream, pieces: list[list[int]]) -> tuple[str, int, bool]:
    """Returns the whole text, how many tokens it took, and whether a stop string ended it."""
    text, used = "", 0
    for block in pieces:
        piece = stream.push(block)
        text, used = text + piece.text, used + piece.used
        if piece.stopped:
            return text, used, True
    piece = stream.finish()
    return text + piece.text, used, piece.stopped


@given(outputs, texts, st.integers())
def test_text_is_what_all_tokens_decode_to(tokens: list[int], prompt: str, seed: int) -> None:
    stream = TextStream(BYTE_LEVEL, BYTE_LEVEL.encode(prompt))
    assert run(stream, blocks(tokens, seed)) == (BYTE_LEVEL.decode(tokens), len(tokens), False)


@given(texts)
def test_no_piece_breaks_a_character(text: str) -> None:
    assume("\ufffd" not in text)
    stream = TextStream(BYTE_LEVEL)
    pieces = [stream.push([token]).text for token in BYTE_LEVEL.encode(text)]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) == text


@given(outputs, stops, st.integers(), st.integers())
def test_blocks_make_no_difference(
    tokens: list[int], stop: list[str], seed: int, other: int
) -> None:
    first = run(TextStream(BYTE_LEVEL, stop=stop), blocks(tokens, seed))
    assert first == run(TextStream(BYTE_LEVEL, stop=stop), blocks(tokens, other))


@given(outputs, stops, st.integers())
def test_text_ends_before_the_first_stop_string(
    tokens: list[int], stop: list[str], seed: int
) -> None:
    whole = BYTE_LEVEL.decode(tokens)
    text, used, stopped = run(TextStream(BYTE_LEVEL, stop=stop), blocks(tokens, seed))
    assert stopped == any(s in whole for s in stop)
    assert whole.startswith(text)
    assert not any(s in text for s in stop)
    if stopped:
        assert any(whole.startswith(s, len(text)) for s in stop)
        assert any(s in BYTE_LEVEL.decode(tokens[:used]) for s in stop)
    else:
        assert (text, used) == (whole, len(tokens))


@given(texts, stops)
def test_nothing_is_held_that_cannot_become_a_stop_string(text: str, stop: list[str]) -> None:
    assume("\ufffd" not in text)
    stream = TextStream(BYTE_LEVEL, stop=stop)
    tokens = BYTE_LEVEL.encode(text)
    piece = stream.push(tokens)
    held = text[len(piece.text) :]
    assert piece.stopped or held == "" or any(s.startswith(held) for s in stop)


def test_stop_string_over_token_borders() -> None:
    stream = TextStream(BYTE_LEVEL, stop=["END"])
    tokens = [token for letter in "aENEND and more" for token in BYTE_LEVEL.encode(letter)]
    piece = stream.push(tokens)
    assert (piece.text, piece.used, piece.stopped) == ("aEN", 6, True)


def test_stop_string_in_the_middle_of_a_block_leaves_the_rest_unused() -> None:
    stream = TextStream(BYTE_LEVEL, stop=["\n"])
    before = BYTE_LEVEL.encode("x = 1\n")
    piece = stream.push([*before, *BYTE_LEVEL.encode("y = 2\n")])
    assert (piece.text, piece.used, piece.stopped) == ("x = 1", len(before), True)


def test_space_after_the_prompt_is_kept() -> None:
    stream = TextStream(FALLBACK, FALLBACK.ids("<s>", "▁Hello"))
    assert stream.push(FALLBACK.ids("▁world")).text == " world"


def test_space_at_the_start_of_the_text_is_dropped_as_in_decode() -> None:
    stream = TextStream(FALLBACK, FALLBACK.ids("<s>"))
    tokens = FALLBACK.ids("▁Hello", "▁world", "ing")
    assert stream.push(tokens).text == FALLBACK.decode(tokens) == "Hello worlding"


def test_special_token_in_between_leaves_spaces_alone() -> None:
    stream = TextStream(FALLBACK)
    assert stream.push(FALLBACK.ids("▁Hello", "<s>", "▁world", "▁", "▁Hello")).text == (
        "Hello world  Hello"
    )


def test_emoji_of_several_tokens_comes_at_once() -> None:
    stream = TextStream(FALLBACK)
    pieces = [stream.push([token]).text for token in FALLBACK.utf8("🙂é")]
    assert pieces == ["", "", "", "🙂", "", "é"]


def test_invalid_bytes_after_a_character_do_no_harm() -> None:
    stream = TextStream(FALLBACK)
    tokens = [*FALLBACK.utf8("é"), *FALLBACK.ids("<0xFF>", "x")]
    assert stream.push(tokens).text == "é\ufffdx"


@pytest.mark.parametrize("stop", [[], ["never"]])
def test_bytes_that_stay_incomplete_come_at_the_end(stop: list[str]) -> None:
    stream = TextStream(FALLBACK, stop=stop)
    assert stream.push(FALLBACK.ids("x", "<0xF0>")).text == "x"
    assert stream.finish().text == "\ufffd"


def test_stop_string_in_what_was_held_back_to_the_end() -> None:
    stream = TextStream(FALLBACK, stop=["\ufffd"])
    stream.push(FALLBACK.ids("x", "<0xF0>"))
    piece = stream.finish()
    assert (piece.text, piece.stopped) == ("", True)


def test_empty_output() -> None:
    assert run(TextStream(FALLBACK), [[]]) == ("", 0, False)


class Counting:
    """A decoder that counts the ids that it is given."""

    def __init__(self, decoder: ByteLevel | ByteFallback) -> None:
        self._decode = decoder.decode
        self.ids = 0

    def decode(self, ids: Sequence[int]) -> str:
        self.ids += len(ids)
        return self._decode(ids)


silent, half = FALLBACK.ids("<s>"), FALLBACK.ids("<0xF0>", "<0x9F>", "<0xFF>", "<0x41>", "<0xC3>")
hard = st.one_of(
    st.lists(st.sampled_from([*silent, *half, *FALLBACK.ids("x", "\u2581")]), max_size=8),
    st.sampled_from([silent, half[:1], half[2:3], FALLBACK.utf8("\U0001f642")]),
).flatmap(lambda some: st.integers(0, 300).map(lambda times: [0, *some] * times))


@given(st.one_of(hard, st.lists(st.integers(0, 261), max_size=300)), st.booleans())
def test_a_token_costs_the_same_however_many_came_before(tokens: list[int], byte: bool) -> None:
    decoder = Counting(BYTE_LEVEL if byte else FALLBACK)
    stream = TextStream(decoder)
    for token in tokens:
        before = decoder.ids
        stream.push([token])
        assert decoder.ids - before <= 64


@pytest.mark.parametrize("halves", [["<0xFF>"], ["<0xF0>"], ["<0xFF>", "<0x41>"]])
def test_what_can_never_become_a_character_goes_out(halves: list[str]) -> None:
    stream = TextStream(FALLBACK, FALLBACK.ids("x"))
    text = ""
    for number in range(1, 50):
        text += stream.push(FALLBACK.ids(*halves)).text
        assert len(text) >= number * len(halves) - 3
    assert "\ufffd" in text


def test_tokens_without_text_do_not_part_a_character() -> None:
    stream = TextStream(FALLBACK, FALLBACK.ids("x"))
    first, *others = FALLBACK.utf8("\U0001f642")
    tokens = [first, *silent * 500, *others]
    assert stream.push(tokens).text == FALLBACK.decode(tokens) == "\U0001f642"


def test_characters_cut_by_every_token_come_out_at_once() -> None:
    """A vocabulary may have the end of a character and the beginning of the next as one token."""
    stream, text = TextStream(BYTE_LEVEL), ""
    tokens = BYTE_LEVEL.encode("\u65e5\u672c" * 40)
    for number, token in enumerate(tokens):
        text += stream.push([token]).text
        whole = BYTE_LEVEL.decode(tokens[: number + 1])
        assert text == whole.rstrip("\ufffd")


END, END_TEXT = BYTE_LEVEL.backend.token_to_id("<|end|>"), "<|end|>"
LETTERS = [BYTE_LEVEL.encode(letter)[0] for letter in "ab<|"]
endings = st.lists(
    st.sampled_from([END_TEXT, f"a{END_TEXT}", f"{END_TEXT}b", f"{END_TEXT}{END_TEXT}", "ab", "<"]),
    max_size=3,
)


@given(st.lists(st.sampled_from([END, *LETTERS])), endings, st.integers())
def test_stop_strings_may_name_tokens_that_are_hidden(
    tokens: list[int], stop: list[str], seed: int
) -> None:
    stream = TextStream(BYTE_LEVEL, stop=stop, hidden={END: END_TEXT})
    text, used, stopped = run(stream, blocks(tokens, seed))
    is_named = any(END_TEXT in s for s in stop)
    shown = [BYTE_LEVEL.decode([t]) or (END_TEXT if is_named else "") for t in tokens]
    ends = [at + len(s) for s in stop if (at := "".join(shown).find(s)) >= 0]
    begins = [at for s in stop if (at := "".join(shown[:used]).find(s)) >= 0]
    assert stopped == bool(ends)
    if not stopped:
        assert (text, used) == (BYTE_LEVEL.decode(tokens), len(tokens))
        return
    assert len("".join(shown[: used - 1])) < min(ends) <= len("".join(shown[:used]))
    before = "".join(shown)[: min(begins)]
    assert text == before.replace(END_TEXT, "")


@given(st.lists(st.sampled_from(FALLBACK.ids("<s>", "▁Hello", "▁", "x"))), st.integers())
def test_offsets_are_where_the_text_is(tokens: list[int], seed: int) -> None:
    stream = TextStream(FALLBACK)
    offsets = [o for block in blocks(tokens, seed) for o in stream.push(block).offsets]
    # The first word comes without its space, and special tokens have no text.
    assert offsets == [len(FALLBACK.decode(tokens[:i])) for i in range(len(tokens))]


def test_all_tokens_of_a_character_begin_where_it_does() -> None:
    stream = TextStream(FALLBACK)
    assert stream.push([*FALLBACK.ids("x"), *FALLBACK.utf8("🙂"), *FALLBACK.ids("x")]).offsets == (
        0,
        1,
        1,
        1,
        1,
        2,
    )


def test_what_is_held_back_counts() -> None:
    stream = TextStream(BYTE_LEVEL, stop=["abc"])
    assert stream.push(BYTE_LEVEL.encode("a")).text == ""
    piece = stream.push(BYTE_LEVEL.encode("x"))
    assert (piece.text, piece.offsets) == ("ax", (1,))
