"""Vocabulary selection: a sentence is scored over the words that it may need only (original: data.lua).

V' selected words · B sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from convs2s.config import SelectionConfig
from convs2s.search.lexicon import as_ids, read_lexicon
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import UNK

# For each source id the target ids that it was aligned with and how often, most frequent first.
Aligned = Mapping[int, Sequence[tuple[int, int]]]


@dataclass
class Selection:
    """The words of a batch and, for each of its sentences, which of them are its own.

    Every sentence is scored over its own words only, so that its translation does not depend on its batch.
    """

    ids: Tensor  # (V',) ascending; the special symbols are there
    allowed: Tensor  # (B, V') bool


def select(
    source: Iterable[int],
    aligned: Aligned,
    config: SelectionConfig,
    target: Iterable[int] = (),
    *,
    vocabulary: int | None = None,
) -> list[int]:
    """Target ids in the original's order: the ``common`` first ids, those of ``target`` (in training, the batch's
    words), and for each distinct source id its ``aligned`` first words seen ``min_frequency`` times; no id twice.

    vocabulary: number of target ids, where ``common`` may be beyond it.
    """
    common = config.common if vocabulary is None else min(config.common, vocabulary)
    selected = dict.fromkeys(range(common))
    selected.update(dict.fromkeys(target))
    for word in dict.fromkeys(source):
        for candidate, frequency in aligned.get(word, ())[: config.aligned]:
            if frequency >= config.min_frequency:
                selected[candidate] = None
    return list(selected)


class BatchSelector:
    """Chooses the words of a training or validation batch (original: data.lua getTargetVocabFromAlignment)."""

    def __init__(self, aligned: Aligned, config: SelectionConfig, vocabulary: int) -> None:
        """vocabulary: number of target ids."""
        self.aligned, self.config, self.vocabulary = aligned, config, vocabulary

    def __call__(self, source: Tensor, target: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        """source (B, S), target (B, T) -> the target as places in the selected words, and these, (V',).

        Words are met in the original's order, position by position. In training the target's own words are there;
        outside, those that are missing become <unk>.
        """
        own = target.t().flatten().tolist() if training else []
        chosen = select(source.t().flatten().tolist(), self.aligned, self.config, own, vocabulary=self.vocabulary)
        ids = torch.tensor(chosen)
        places = torch.full((self.vocabulary,), UNK)
        places[ids] = torch.arange(len(ids))
        return places.to(target.device)[target], ids.to(target.device)


def read_aligned(config: SelectionConfig, tokenizers: Tokenizers) -> Aligned | None:
    """The lexicon by ids; None where no vocabulary is selected. Raises UserError for a file that is no lexicon."""
    if config.lexicon is None:
        return None
    lexicon = read_lexicon(config.lexicon, "search.selection.lexicon")  # training checks its own before it begins
    return as_ids(lexicon, tokenizers.source.symbols, tokenizers.target.symbols)


def batch_selector(config: SelectionConfig, tokenizers: Tokenizers) -> BatchSelector | None:
    """For training; None where no vocabulary is selected."""
    aligned = read_aligned(config, tokenizers)
    return None if aligned is None else BatchSelector(aligned, config, len(tokenizers.target.symbols))


def select_batch(
    sources: Sequence[Sequence[int]], aligned: Aligned, config: SelectionConfig, vocabulary: int
) -> Selection:
    """The selections of several sentences."""
    own = [select(source, aligned, config, vocabulary=vocabulary) for source in sources]
    member = torch.zeros(len(own), vocabulary, dtype=torch.bool)
    for number, words in enumerate(own):
        member[number, words] = True
    ids = member.any(0).nonzero().squeeze(1)
    return Selection(ids, member[:, ids])
