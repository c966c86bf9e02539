"""Lines of text in, translations out: in order, one for one, however long the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

from convs2s.config import LongLines, SearchConfig
from convs2s.data.corpus import over_long
from convs2s.messages import Log, say
from convs2s.model import Seq2Seq
from convs2s.search.beam import search_sentences
from convs2s.search.lexicon import Lexicon, read_lexicon
from convs2s.search.pieces import Joints
from convs2s.search.selection import read_aligned, select_batch
from convs2s.search.splitting import split_line
from convs2s.search.trace import Hypothesis
from convs2s.search.unknown import replace_unknown
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS, UNK

T = TypeVar("T")
CHUNK = 10_000  # lines read, sorted by length and translated before the next are read
MANY_UNKNOWN = 0.2  # share of <unk> among the source pieces from which on a warning is due


@dataclass
class Translation:
    """One translation of a line."""

    text: str  # plain text, never with a line end in it
    score: float = 0.0
    hypothesis: Hypothesis | None = None  # None where the line had no pieces or was split


@dataclass
class Block:
    """What became of some lines."""

    translations: list[list[Translation]] = field(default_factory=list)  # of each line, best first
    pieces: int = 0  # of the source, </s> included
    unknown: int = 0  # of those, <unk>


class Translator:
    """Models, tokenisers and search options, ready for lines of text."""

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        tokenizers: Tokenizers,
        config: SearchConfig,
        *,
        name: str = "input",
        attention: bool = False,
        layers: bool = False,
    ) -> None:
        """name: what the lines come from, for messages; attention, layers: keep them with the hypotheses.

        Raises UserError for search options that cannot work.
        """
        config.check()
        self.models, self.tokenizers, self.config, self.name = models, tokenizers, config, name
        self.attention, self.layers = attention or config.unknown.replace, layers
        self.limit = min(model.max_source_length for model in models)
        self.joints = Joints(tokenizers.source), Joints(tokenizers.target)
        unknown = config.unknown
        self.lexicon: Lexicon = {}
        if unknown.replace and unknown.lexicon is not None:
            self.lexicon = read_lexicon(unknown.lexicon, "search.unknown.lexicon")
        self.aligned = read_aligned(config.selection, tokenizers)

    def translate(self, lines: Sequence[str], first: int = 1) -> Block:
        """The translations of lines, of which the first has number ``first`` in its file.

        Raises UserError for a line longer than the models take, with its number, unless ``long_lines`` is cut.
        """
        texts, owners = list(lines), list(range(len(lines)))
        sources = self.encode(texts)
        if any(len(source) > self.limit for source in sources):
            texts, owners = self.split(lines, sources, first)
            sources = self.encode(texts)
        block = Block(pieces=sum(map(len, sources)), unknown=sum(source.count(UNK) for source in sources))
        found = self.search(sources, texts)
        parts: list[list[list[Translation]]] = [[] for _ in lines]
        for owner, translations in zip(owners, found, strict=True):
            parts[owner].append(translations)
        block.translations = [of_line[0] if len(of_line) == 1 else join(of_line) for of_line in parts]
        return block

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids with </s>; nothing for a line without a piece."""
        return [[*ids, EOS] if ids else [] for ids in self.tokenizers.source.encode(texts)]

    def split(self, lines: Sequence[str], sources: Sequence[Sequence[int]], first: int) -> tuple[list[str], list[int]]:
        """Lines in parts that the models take, and which line each is of."""
        texts: list[str] = []
        owners: list[int] = []
        for number, (line, source) in enumerate(zip(lines, sources, strict=True)):
            parts = [line]
            if len(source) > self.limit:
                if self.config.long_lines == LongLines.refuse:
                    place = f"{self.name}, line {first + number}"
                    raise over_long(place, len(source), self.limit, "split the line, or give search.long_lines=cut")
                parts = split_line(line, lambda text: len(self.encode([text])[0]) <= self.limit)
            texts += parts
            owners += [number] * len(parts)
        return texts, owners

    def search(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> list[list[Translation]]:
        """Of each source its translations; one empty one where there is nothing to translate."""
        config, aligned, select = self.config, self.aligned, None
        if aligned is not None:
            words = self.models[0].target_vocabulary
            select = partial(select_batch, aligned=aligned, config=config.selection, vocabulary=words)
        found = search_sentences(
            self.models,
            sources,
            config,
            attention=self.attention,
            layers=self.layers,
            continuations=self.joints[1].continued if config.subwordpen else None,
            select=select,
        )
        return [
            [Translation(self.text(hypothesis, text), hypothesis.score, hypothesis) for hypothesis in best]
            or [Translation("")]
            for best, text in zip(found, texts, strict=True)
        ]

    def text(self, hypothesis: Hypothesis, source: str) -> str:
        """Plain text of a hypothesis, its <unk> replaced where that is asked for."""
        if self.config.unknown.replace and UNK in hypothesis.ids and hypothesis.attention is not None:
            pieces = self.tokenizers.source.pieces(source)
            return replace_unknown(hypothesis.ids, hypothesis.attention, pieces, self.lexicon, *self.joints)
        return self.tokenizers.target.decode(hypothesis.ids)


class Warner:
    """Says once that much of the source is unknown to the model."""

    def __init__(self, name: str, warn: Log = say) -> None:
        self.name, self.warn = name, warn
        self.pieces = self.unknown = 0
        self.warned = False

    def see(self, block: Block) -> None:
        self.pieces += block.pieces
        self.unknown += block.unknown
        if self.unknown > MANY_UNKNOWN * self.pieces and not self.warned:
            self.warned = True
            self.warn(
                f"warning: {self.name}: {self.unknown:,} of {self.pieces:,} pieces are unknown to the model; "
                "is this the model's source language, written and segmented like its training text?"
            )


def translate_lines(
    models: Sequence[Seq2Seq],
    tokenizers: Tokenizers,
    lines: Iterable[str],
    config: SearchConfig,
    *,
    name: str = "input",
    chunk: int = CHUNK,
    attention: bool = False,
    layers: bool = False,
    warn: Log = say,
) -> Iterator[list[Translation]]:
    """For each line, in order, its ``config.nbest`` best translations (fewer where fewer exist), best first.

    A line without a piece, a blank one above all, gives one empty translation. Memory is bounded by ``chunk`` lines.
    warn: told once when much of the source is unknown to the model. Else as ``Translator``.
    """
    translator = Translator(models, tokenizers, config, name=name, attention=attention, layers=layers)
    yield from translate_blocks(translator.translate, blocks(lines, chunk), Warner(name, warn))


def translate_blocks(
    translate: Callable[[Sequence[str], int], Block], blocks: Iterable[Sequence[str]], warner: Warner
) -> Iterator[list[Translation]]:
    """The translations of every line of every block, in order."""
    first = 1
    for lines in blocks:
        block = translate(lines, first)
        warner.see(block)
        yield from block.translations
        first += len(lines)


def blocks(lines: Iterable[T], chunk: int) -> Iterator[list[T]]:
    """Lines, or pairs of them, by the chunk."""
    lines = iter(lines)
    while block := list(islice(lines, chunk)):
        yield block


def join(parts: Sequence[Sequence[Translation]]) -> list[Translation]:
    """The translations of a line that was split: the best of each part, then the second of each, and so on.

    Their score is the sum of the parts' scores.
    """
    ranks = min(map(len, parts))
    chosen = [[of_part[rank] for of_part in parts] for rank in range(ranks)]
    return [
        Translation(" ".join(part.text for part in rank if part.text), sum(part.score for part in rank))
        for rank in chosen
    ]
