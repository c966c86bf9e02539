"""What is measured after every epoch: the loss and, as options, BLEU and sample translations of the validation pairs.

Every process takes its share of the sentences; all know the same figures at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from convs2s.config import LongLines, ModelConfig, SourcePadding, TargetPadding, TrainConfig
from convs2s.data.batching import bucket_batches, collate, cut_batches
from convs2s.data.lines import read_pairs
from convs2s.data.prepare import split_paths
from convs2s.messages import silent
from convs2s.search.translate import Translation, Translator
from convs2s.text.vocabulary import EOS, SPECIALS
from convs2s.text.whitespace_tokenizer import remove_joiners

if TYPE_CHECKING:
    from convs2s.training.run import Run

Pairs = list[tuple[str, str]]


@dataclass
class Sample:
    """A validation sentence as the model translates it."""

    source: str
    reference: str
    translation: str
    source_pieces: list[str] = field(default_factory=list)  # S, </s> included
    target_pieces: list[str] = field(default_factory=list)  # T
    attention: NDArray[np.floating] | None = None  # (T, S), the layers' average; None where nothing was translated


@dataclass
class Validation:
    """The figures of an epoch's end."""

    loss: float  # nats per target token, </s> included
    bleu: float | None = None  # 0 to 100; None: not asked for
    samples: list[Sample] = field(default_factory=list)  # the first process' only


def valid_texts(config: TrainConfig) -> Pairs:
    """Source and reference of every validation pair, joiners removed from the references; [] where no text is used."""
    if not config.training.validation_bleu and not config.training.samples:
        return []
    pairs = read_pairs(*split_paths(config.data, "valid", silent))
    return [(source, remove_joiners(reference, config.text.joiner)) for source, reference in pairs]


def validate(run: Run) -> Validation:
    """Measure the model as it is; it and its training go on unchanged."""
    training, shows = run.config.training, run.journal is not None and run.journal.writer is not None
    validation = Validation(loss(run))
    if training.validation_bleu or (shows and training.samples):
        run.model.fold()  # effective weights once, in fp32: search.precision would round the model's own
        try:
            if training.validation_bleu:
                validation.bleu = bleu(run)
            if shows:
                validation.samples = samples(run, run.valid_texts[: training.samples])
        finally:
            run.model.train()
    return validation


@torch.no_grad()
def loss(run: Run) -> float:
    """Negative log-likelihood of the validation pairs in nats per target token, </s> included."""
    corpus, training, world = run.data.valid, run.config.training, run.world
    left = padded_left(run.config.model)
    cut = bucket_batches if left[0] else cut_batches
    batches = cut(
        corpus.source_lengths,
        corpus.target_lengths,
        sentences=training.batch_sentences,
        tokens=training.batch_tokens,
    )
    run.model.eval()
    total, count = 0.0, 0
    for indices in batches[world.rank :: world.size]:
        batch = collate(corpus, indices, *left)
        with run.updater.autocast():
            total += run.model.loss(*run.updater.arguments(batch, training=False)).item()
        count += batch.tokens
    all_loss, all_tokens = world.sum([total, count])
    return all_loss / all_tokens


def bleu(run: Run) -> float:
    """Cased BLEU of sacrebleu against the raw references, as ``evaluate.py split=valid`` has it."""
    rank, size = run.world.rank, run.world.size
    sources = [source for source, _ in run.valid_texts[rank::size]]
    own = [best.text for best in translate(run, sources, attention=False)]
    hypotheses = [""] * len(run.valid_texts)
    for other, texts in enumerate(run.world.gather(own)):
        hypotheses[other::size] = texts
    references = [reference for _, reference in run.valid_texts]
    return float(BLEU(force=True).corpus_score(hypotheses, [references]).score)


def samples(run: Run, pairs: Pairs) -> list[Sample]:
    """Translations of some pairs, with what they attend to."""
    sides = run.data.tokenizers
    found = []
    translations = translate(run, [source for source, _ in pairs], attention=True)
    for (source, reference), best in zip(pairs, translations, strict=True):
        sample = Sample(source, reference, best.text)
        if best.hypothesis is not None and best.hypothesis.attention is not None:
            sample.source_pieces = [*sides.source.pieces(source), SPECIALS[EOS]]
            sample.target_pieces = [sides.target.symbols[i] for i in best.hypothesis.ids]
            sample.attention = best.hypothesis.attention.float().numpy()
        found.append(sample)
    return found


def translate(run: Run, sources: Sequence[str], attention: bool) -> list[Translation]:
    """The best translation of each line, by the run's own search."""
    search = replace(run.config.search, nbest=1, long_lines=LongLines.cut)
    translator = Translator([run.model], run.data.tokenizers, search, attention=attention)
    return [best for best, *_ in translator.translate(sources).translations]


def padded_left(model: ModelConfig) -> tuple[bool, bool]:
    """Whether sources and targets are padded on the left."""
    return model.source_padding == SourcePadding.original, model.target_padding == TargetPadding.left
