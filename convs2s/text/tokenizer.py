"""What a tokeniser is, the pair of them that a model needs, and how the two are learnt from the training text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

from convs2s.config import TextConfig, TokenizerKind
from convs2s.messages import Log, say
from convs2s.text.moses import Moses
from convs2s.text.moses_bpe_tokenizer import MosesBpeTokenizer, count_pieces, count_words, learn_codes, read_codes
from convs2s.text.sentencepiece_tokenizer import SentencePieceTokenizer
from convs2s.text.vocabulary import frequent_words
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer


class Tokenizer(Protocol):
    """A line of text <-> ids. ``<unk>`` 0, ``<pad>`` 1, ``</s>`` 2 never stand for text that looks like them."""

    @property
    def symbols(self) -> list[str]:
        """Piece of each id; as many as the vocabulary is large."""

    @property
    def word_start(self) -> str:
        """Mark at the beginning of a piece that begins a word; "": pieces have a joiner, or are words."""

    @property
    def joiner(self) -> str:
        """Mark at the end of a piece that goes on in the next; "": none."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, without </s>; a blank line gives []."""

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text, always one line; PAD and EOS are dropped, UNK reads "<unk>"."""

    def pieces(self, line: str) -> list[str]:
        """Surface pieces of a line, one for each id; unknown ones by their own text."""

    def spaced(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines with spaces between words, for ``convs2s.text.word_cache``."""

    def word_ids(self, words: Sequence[str]) -> Sequence[list[int] | None]:
        """The ids of each word by itself; None where they depend on the rest of the line."""

    def state(self) -> dict[str, Any]:
        """Plain types and tensors, for torch.save and torch.load(weights_only=True)."""


_KINDS: dict[str, type[SentencePieceTokenizer] | type[MosesBpeTokenizer] | type[WhitespaceTokenizer]] = {
    "sentencepiece": SentencePieceTokenizer,
    "moses_bpe": MosesBpeTokenizer,
    "whitespace": WhitespaceTokenizer,
}


class Tokenizers(NamedTuple):
    """The two sides' tokenisers; one and the same object where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    def state(self) -> dict[str, Any]:
        """Both sides; "target" is None where it is the source's."""
        return {
            "source": self.source.state(),
            "target": None if self.target is self.source else self.target.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Tokenizers:
        """The pair that ``state`` was taken of."""
        source = _from_state(state["source"])
        return cls(source, source if state["target"] is None else _from_state(state["target"]))


def _from_state(state: dict[str, Any]) -> Tokenizer:
    return _KINDS[state["kind"]].from_state(state)


def segmenters(config: TextConfig, languages: tuple[str, str]) -> tuple[Moses, Moses] | None:
    """What cuts raw lines of either side into words before anything is learnt; None for kinds that need no such step.

    Raises UserError for options that cannot work, before any text is read.
    """
    config.check()
    if config.kind != TokenizerKind.moses_bpe:
        return None
    source, target = (Moses(language, config.punctuation, config.lowercase) for language in languages)
    return source, target


def train_tokenizers(
    config: TextConfig,
    source: Iterable[str],
    target: Iterable[str],
    seed: int,
    *,
    count: int | None = None,
    languages: tuple[str, str] = ("en", "en"),
    segmented: bool = False,
    log: Log = say,
) -> Tokenizers:
    """Learn the tokenisers from the training text. ``source`` is read to its end before ``target``, each once.

    ``count``: lines of either side; with it SentencePiece learns from ``training_lines`` of them, drawn with ``seed``.
    ``languages``, ``segmented``: for moses_bpe, the sides' languages and whether the lines went through ``segmenters``.
    Raises UserError for options that cannot work, and whatever the iterables raise.
    """
    config.check()
    if config.kind == TokenizerKind.moses_bpe:
        return _train_moses_bpe(config, source, target, languages, segmented)
    if config.kind == TokenizerKind.whitespace:
        limits = {True: config.max_words, False: _max_target_words(config)}
        return _train(config, source, target, lambda lines, first: _train_whitespace(config, lines, limits[first]))
    if count is not None:
        wanted = max(1, config.training_lines // 2) if config.joint else config.training_lines
        source, target = _draw(source, count, wanted, seed), _draw(target, count, wanted, seed)
    return _train(config, source, target, lambda lines, _: _train_sentencepiece(config, lines, log))


def _train(
    config: TextConfig, source: Iterable[str], target: Iterable[str], learn: Callable[[Iterable[str], bool], Tokenizer]
) -> Tokenizers:
    """``learn`` gets lines and whether the vocabulary is the source's."""
    if config.joint:
        tokenizer = learn(chain(source, target), True)
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(learn(source, True), learn(target, False))


def _max_target_words(config: TextConfig) -> int | None:
    return config.max_words if config.max_target_words is None else config.max_target_words


def _train_moses_bpe(
    config: TextConfig, source: Iterable[str], target: Iterable[str], languages: tuple[str, str], segmented: bool
) -> Tokenizers:
    """Codes from both sides together (sec. 4.1), a vocabulary for both or for each."""
    both = segmenters(config, languages)
    assert both is not None
    sides = [
        count_words(lines if segmented else map(moses.segment, lines))
        for moses, lines in zip(both, (source, target), strict=True)
    ]
    codes: list[str] = []
    if config.codes is not None:
        codes = read_codes(config.codes)
    elif config.merges:
        codes = learn_codes(sides[0] + sides[1], config.merges)
    pieces = [count_pieces(words, codes) for words in sides]
    if config.joint:
        pieces = [pieces[0] + pieces[1]] * 2
    kept = [
        frequent_words(counts, config.min_frequency, limit)
        for counts, limit in zip(pieces, (config.max_words, _max_target_words(config)), strict=True)
    ]
    if config.joint:
        kept[1] = kept[0]
    return Tokenizers(*(MosesBpeTokenizer(words, codes, moses) for words, moses in zip(kept, both, strict=True)))


def _train_whitespace(config: TextConfig, lines: Iterable[str], max_words: int | None) -> WhitespaceTokenizer:
    return WhitespaceTokenizer.train(
        lines,
        min_frequency=config.min_frequency,
        max_words=max_words,
        joiner=config.joiner,
        join_input=config.join_input,
    )


def _train_sentencepiece(config: TextConfig, lines: Iterable[str], log: Log) -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(
        lines,
        vocabulary_size=config.vocabulary_size,
        character_coverage=config.character_coverage,
        normalization=config.normalization,
        byte_fallback=config.byte_fallback,
        log=log,
    )


def sampled(config: TextConfig, count: int) -> bool:
    """Whether the seed matters: ``count`` lines a side are more than SentencePiece is to learn from."""
    lines = count * (2 if config.joint else 1)
    return config.kind == TokenizerKind.sentencepiece and lines > config.training_lines


def _draw(lines: Iterable[str], count: int, wanted: int, seed: int) -> Iterator[str]:
    """``wanted`` of ``count`` lines in their order, every subset equally likely (Knuth's selection sampling)."""
    if wanted >= count:
        yield from lines
        return
    draw = random.Random(seed).random
    for left, line in zip(range(count, 0, -1), lines, strict=False):
        if draw() * left < wanted:
            wanted -= 1
            yield line
