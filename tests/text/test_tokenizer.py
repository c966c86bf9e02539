"""The pair of tokenisers: joint or per side, sampled training text, options that cannot work."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import pytest
import torch

from convs2s.config import TextConfig, TokenizerKind
from convs2s.errors import UserError
from convs2s.text.tokenizer import Tokenizers, _draw, sampled, train_tokenizers

SOURCE, TARGET = ["ein alter Mann", "eine alte Frau"] * 5, ["an old man", "an old woman"] * 5
PIECES = TextConfig(vocabulary_size=40)
WORDS = TextConfig(kind=TokenizerKind.whitespace)


def train(config: TextConfig, seed: int = 1) -> Tokenizers:
    return train_tokenizers(config, iter(SOURCE), iter(TARGET), seed, count=len(SOURCE), log=lambda _: None)


@pytest.mark.parametrize("config", [PIECES, WORDS], ids=["sentencepiece", "whitespace"])
def test_joint_or_per_side(config: TextConfig) -> None:
    """Would catch a side's vocabulary with the other side's words, and two vocabularies where one was asked for."""
    joint = train(replace(config, joint=True))
    assert joint.source is joint.target
    for line in SOURCE + TARGET:
        assert 0 not in joint.source.encode([line])[0]
    apart = train(replace(config, joint=False))
    assert 0 in apart.target.encode(["Frau"])[0]
    assert 0 in apart.source.encode(["woman"])[0]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("config", [PIECES, WORDS], ids=["sentencepiece", "whitespace"])
def test_state_survives_a_safe_load(config: TextConfig, joint: bool) -> None:
    """Would catch sides swapped or separated, and state that is no plain type."""
    before = train(replace(config, joint=joint))
    file = io.BytesIO()
    torch.save(before.state(), file)
    file.seek(0)
    after = Tokenizers.from_state(torch.load(file, weights_only=True))
    assert (after.source is after.target) == joint
    assert after.source.encode(SOURCE) == before.source.encode(SOURCE)
    assert after.target.encode(TARGET) == before.target.encode(TARGET)


def test_drawn_lines_keep_their_order_and_every_line_is_as_likely() -> None:
    """Would catch a sample of the wrong size, only the first lines, or lines drawn twice."""
    text = [str(i) for i in range(20)]
    seen: Counter[str] = Counter()
    for seed in range(400):
        drawn = list(_draw(text, 20, 5, seed))
        assert len(drawn) == 5
        assert sorted(set(drawn), key=int) == drawn
        assert drawn == list(_draw(text, 20, 5, seed))
        seen.update(drawn)
    assert all(50 < seen[line] < 150 for line in text)  # 100 expected, 5.8 standard deviations
    assert list(_draw(text, 20, 20, 1)) == text


def test_training_lines_bounds_what_sentencepiece_sees() -> None:
    """Would catch training_lines without effect, and a seed that is ignored or matters where nothing is drawn."""
    few = replace(PIECES, training_lines=4, vocabulary_size=20)
    assert sampled(few, 10)
    assert not sampled(PIECES, 10)
    assert not sampled(replace(WORDS, training_lines=1), 10)
    text = [chr(ord("a") + i) * 3 for i in range(10)]
    symbols = {
        seed: train_tokenizers(few, text, text, seed, count=10, log=lambda _: None).source.symbols for seed in range(4)
    }
    assert all(len({s for piece in kept[3:] for s in piece if s != "\u2581"}) <= 4 for kept in symbols.values())
    assert len({tuple(kept) for kept in symbols.values()}) > 1


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (replace(WORDS, min_frequency=0), "text.min_frequency=0"),
        (replace(WORDS, max_words=0), "text.max_words=0"),
        (replace(WORDS, join_input=True), "text.joiner"),
        (replace(PIECES, join_input=True), "text.kind"),
        (replace(PIECES, normalization="nfd"), "text.normalization=nfd"),
        (replace(PIECES, character_coverage=1.5), "text.character_coverage=1.5"),
        (replace(PIECES, training_lines=0), "text.training_lines=0"),
        (replace(PIECES, vocabulary_size=3), "text.vocabulary_size=3"),
        (replace(PIECES, vocabulary_size=200, byte_fallback=True), "text.vocabulary_size=200"),
    ],
)
def test_options_that_cannot_work_are_named(config: TextConfig, named: str) -> None:
    """Would catch a traceback from SentencePiece, or an empty vocabulary, for a mistyped option."""
    with pytest.raises(UserError, match=named):
        train(config)
