"""SentencePiece pieces: round trips, text that SentencePiece by itself would drop or misread, sizes that do not fit."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convs2s.errors import UserError
from convs2s.text.sentencepiece_tokenizer import SentencePieceTokenizer
from convs2s.text.vocabulary import EOS, PAD, UNK

TEXT = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.",
    "A little girl climbing into a wooden playhouse, isn't she?",
    "x<unk>y</s>z<pad>q <unk> </s> <pad>",
] * 4


def trained(text: list[str], size: int = 120, **options: object) -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(text, vocabulary_size=size, log=lambda _: None, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return trained(TEXT)


@pytest.fixture(scope="module")
def exact() -> SentencePieceTokenizer:
    """Keeps every character: no normalisation, unknown ones as bytes."""
    return trained(TEXT, 400, normalization="identity", byte_fallback=True)


def test_specials_have_the_agreed_ids_and_there_is_no_start_symbol(tokenizer: SentencePieceTokenizer) -> None:
    """Would catch SentencePiece's default order (<unk>, <s>, </s>, no padding)."""
    assert tokenizer.symbols[:3] == ["<unk>", "<pad>", "</s>"]
    assert "<s>" not in tokenizer.symbols
    assert len(tokenizer.symbols) == 120


@given(words=st.lists(st.text(st.sampled_from("ZwejungMäßBüs.,'?<>/kp"), min_size=1, max_size=12), max_size=8))
def test_text_of_known_characters_comes_back(tokenizer: SentencePieceTokenizer, words: list[str]) -> None:
    """Would catch any loss in segmenting and detokenising, and ids below 3 from text."""
    line = " ".join(words)
    ids = tokenizer.encode([line])[0]
    assert tokenizer.decode(ids) == line
    assert all(i > EOS for i in ids)
    assert len(tokenizer.pieces(line)) == len(ids)


@given(line=st.text(st.characters(exclude_characters="\n \u2581", exclude_categories=["Cs"])))
def test_byte_fallback_gives_any_characters_back(exact: SentencePieceTokenizer, line: str) -> None:
    """Would catch characters lost when spelt as bytes: NUL, U+2028, tabs, emoji; a CR at the end is no text."""
    assert exact.decode(exact.encode([line])[0]) == line.rstrip("\r")


@pytest.mark.parametrize("line", ["x<unk>y</s>z<pad>q", "<unk> </s> <pad>", "a</s>", "< unk > < pad > < eos >"])
def test_text_that_looks_like_a_special_stays_text(tokenizer: SentencePieceTokenizer, line: str) -> None:
    """Would catch </s> from a literal "</s>", and training lines with one being left out (their "<" unknown)."""
    ids = tokenizer.encode([line])[0]
    assert all(i > EOS for i in ids)
    assert tokenizer.decode(ids) == line


@pytest.mark.parametrize(
    "odd", ["\0", "\t", "\r", "\u2028", "\u0085", "\x0b", "\x0c", "\u00a0", "\u200b", "\u2585", "\ufeff"]
)
@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity"])
def test_odd_characters_neither_break_nor_drop_a_training_line(odd: str, rule: str) -> None:
    """Would catch lines with NUL, tabs or U+2585 left out of training (the "ß" in them unknown), and lost lines."""
    odd_lines = [f"gro{odd}ß", odd, f"{odd}ab{odd}"]
    tokenizer = trained([*odd_lines * 3, "grab"], 40, normalization=rule)
    assert tokenizer.encode(["ß"])[0].count(UNK) == 0
    ids = tokenizer.encode(odd_lines)
    assert len(ids) == 3
    assert all("\n" not in tokenizer.decode(sentence) for sentence in ids)
    assert [len(tokenizer.pieces(line)) for line in odd_lines] == [len(sentence) for sentence in ids]


def test_blank_lines_are_empty(tokenizer: SentencePieceTokenizer) -> None:
    """Would catch an unknown or a bare space piece for a blank line, also in CRLF files."""
    assert tokenizer.encode(["", " ", "\r", "\t", "\u00a0"]) == [[]] * 5
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == ""


def test_crlf_text_gives_the_same_ids() -> None:
    """Would catch a piece for CR at every line's end where nothing is normalised."""
    tokenizer = trained(TEXT, normalization="identity")
    assert tokenizer.encode([f"{line}\r" for line in TEXT]) == tokenizer.encode(TEXT)


def test_unknown_characters(tokenizer: SentencePieceTokenizer) -> None:
    """Would catch the surface " ⁇ ", and pieces that hide what was unknown."""
    ids = tokenizer.encode(["Männer ☃☃ x"])[0]
    assert tokenizer.decode([PAD, *ids, EOS, PAD]) == "Männer <unk> x"
    pieces = tokenizer.pieces("Männer ☃☃ x")
    assert len(pieces) == len(ids)
    assert pieces[ids.index(UNK)] == "☃☃"


def test_decode_never_ends_a_line(exact: SentencePieceTokenizer) -> None:
    """Would catch a model that spells byte 0A: its output would push all later lines down by one."""
    newline = exact.symbols.index("<0x0A>")
    letters = exact.encode(["a"])[0]
    assert exact.decode([*letters, newline, *letters]).count("\n") == 0


def test_too_large_a_vocabulary_shrinks_with_a_message() -> None:
    """Would catch a crash, or silence, on a small corpus."""
    said: list[str] = []
    tokenizer = SentencePieceTokenizer.train(TEXT, vocabulary_size=5000, log=said.append)
    assert len(tokenizer.symbols) < 5000
    assert len(said) == 1
    assert "5000" in said[0]
    assert f"{len(tokenizer.symbols):,}" in said[0]


def test_too_small_a_vocabulary_is_refused_with_the_size_that_works() -> None:
    """Would catch SentencePiece's internal error; the size named must be the smallest that works."""
    with pytest.raises(UserError, match=r"text\.vocabulary_size=10 .* take \d+;") as caught:
        trained(TEXT, 10)
    needed = int(str(caught.value).split("take ")[1].split(";")[0])
    assert len(trained(TEXT, needed).symbols) == needed


@pytest.mark.parametrize("text", [[], ["", "  "]])
def test_blank_training_text_is_refused(text: list[str]) -> None:
    """Would catch SentencePiece's internal error on an empty corpus."""
    with pytest.raises(UserError, match="no characters"):
        trained(text)


def test_long_training_lines_count() -> None:
    """Would catch SentencePiece's silent limit of 4,192 bytes a line: the only "ß" stands in a long one."""
    tokenizer = trained(["ab " * 2000 + "ß", "ba" * 100_000, "ab"], 20)
    assert UNK not in tokenizer.encode(["ß ab"])[0]


def test_a_line_of_a_million_characters_is_encoded(tokenizer: SentencePieceTokenizer) -> None:
    """Would catch a limit or a quadratic search in encoding."""
    line = "Büsche " * 143_000
    assert tokenizer.decode(tokenizer.encode([line])[0]) == line.strip()


def test_training_repeats_itself_silently(capfd: pytest.CaptureFixture[str]) -> None:
    """Would catch chance in training, and SentencePiece's log on the terminal."""
    assert trained(TEXT).model == trained(TEXT).model
    assert capfd.readouterr() == ("", "")


def test_faults_of_the_text_reach_the_user() -> None:
    """Would catch SentencePiece wrapping the reader's error into one of its own."""

    def broken():  # type: ignore[no-untyped-def]
        yield "a b"
        raise UserError("train.de, line 2, byte 3")

    with pytest.raises(UserError, match=r"^train\.de, line 2, byte 3$"):
        trained(broken())


def test_state_survives_a_safe_load(tokenizer: SentencePieceTokenizer) -> None:
    """Would catch state that torch refuses under weights_only=True."""
    file = io.BytesIO()
    torch.save(tokenizer.state(), file)
    file.seek(0)
    again = SentencePieceTokenizer.from_state(torch.load(file, weights_only=True))
    assert again.symbols == tokenizer.symbols
    assert again.encode(TEXT) == tokenizer.encode(TEXT)


def test_ctrl_c_while_pieces_are_learnt_is_no_fault_of_the_text() -> None:
    """Fault: an interruption comes back as an internal error of the trainer, and status 1."""

    def interrupted() -> Iterator[str]:
        yield "ein hund"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SentencePieceTokenizer.train(interrupted(), vocabulary_size=50)
