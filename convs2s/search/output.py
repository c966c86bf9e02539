"""What is written for a line: its translation, an n-best table, its attention.

T target tokens · S source tokens, both with </s>.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from torch import Tensor

from convs2s.files import atomic, check_place
from convs2s.search.trace import Hypothesis
from convs2s.search.translate import Translation
from convs2s.search.unknown import attended
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS, SPECIALS

HEADER = "line\trank\tscore\ttranslation"

WriteAttention = Callable[[int, str, Sequence[Translation]], None]  # line number, source line, its translations


def output_lines(number: int, translations: Sequence[Translation], table: bool) -> Iterator[str]:
    """What is written for input line ``number`` (from 1), without line ends.

    Plain: the best text. A table, headed by HEADER: one row a translation, best first; a blank line has a single one
    with an empty text.
    """
    if not table:
        yield translations[0].text
        return
    for rank, translation in enumerate(translations, start=1):
        text = translation.text.replace("\t", " ")
        yield f"{number}\t{rank}\t{translation.score:.6f}\t{text}"


def pharaoh(hypothesis: Hypothesis) -> str:
    """Hard alignment of the pieces, </s> left out on both sides: "source-target", counted from 0."""
    assert hypothesis.attention is not None
    places = attended(hypothesis.attention)[:-1]
    return " ".join(f"{source}-{target}" for target, source in enumerate(places))


@contextmanager
def open_attention(path: str, tokenizers: Tokenizers, layers: bool) -> Iterator[WriteAttention]:
    """A function that writes the attention of each line's best translation.

    FILE.npz: for line n the array "n", (T, S), or with ``layers`` (L, T, S). FILE.jsonl: one object a line with the
    pieces of both sides. Any other name: hard alignments in Pharaoh format, one line each.
    """
    check_place(path, "attention")
    target = Path(path)
    if target.suffix == ".npz":
        with atomic(target, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:

            def write_array(number: int, line: str, translations: Sequence[Translation]) -> None:
                matrix = matrix_of(translations, layers)
                if matrix is not None:
                    buffer = io.BytesIO()
                    np.save(buffer, matrix.float().numpy())
                    archive.writestr(f"{number}.npy", buffer.getvalue())

            yield write_array
        return
    with atomic(target) as file:

        def write_line(number: int, line: str, translations: Sequence[Translation]) -> None:
            matrix, hypothesis = matrix_of(translations, layers), translations[0].hypothesis
            if target.suffix != ".jsonl":
                print("" if hypothesis is None else pharaoh(hypothesis), file=file)
                return
            record = {"line": number, "source": [], "target": [], "attention": []}
            if matrix is not None and hypothesis is not None:
                record["source"] = [*tokenizers.source.pieces(line), SPECIALS[EOS]]
                record["target"] = [tokenizers.target.symbols[i] for i in hypothesis.ids]
                record["attention"] = matrix.double().numpy().round(6).tolist()
            print(json.dumps(record, ensure_ascii=False), file=file)

        yield write_line


def matrix_of(translations: Sequence[Translation], layers: bool) -> Tensor | None:
    """The best translation's attention; None where there is none."""
    hypothesis = translations[0].hypothesis
    if hypothesis is None:
        return None
    return hypothesis.layers if layers else hypothesis.attention
