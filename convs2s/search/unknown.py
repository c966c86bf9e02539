"""Words for what the model could only call <unk>: of the source word it attends to (original: unkreplace).

T target tokens with </s> · S source tokens with </s>.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from convs2s.search.lexicon import Lexicon
from convs2s.search.pieces import Joints
from convs2s.text.vocabulary import UNK


def attended(attention: Tensor) -> list[int]:
    """Hard alignment: for each target piece the source piece with most attention, </s> and padding excluded.

    attention: (T, S) over real source pieces, the last of which is </s>.
    """
    places: list[int] = attention[:, :-1].argmax(1).tolist()
    return places


def replacements(
    ids: Sequence[int], places: Sequence[int], source: Sequence[str], lexicon: Lexicon
) -> list[str | None]:
    """A word for each <unk> among ids: the lexicon's for the source word at its place, or that word itself.

    source: the raw words; places: one for each id. A place that is no word of the source, as that of </s>, gives None.
    """
    found: list[str | None] = []
    for token, place in zip(ids, places, strict=False):
        if token == UNK:
            word = source[place] if 0 <= place < len(source) else None
            found.append(None if word is None else lexicon[word][0][0] if lexicon.get(word) else word)
    return found


def replace_unknown(
    ids: Sequence[int], attention: Tensor, pieces: Sequence[str], lexicon: Lexicon, source: Joints, target: Joints
) -> str:
    """Plain text of a translation, without <unk>. pieces: those of the source line, each as it is in the text."""
    words = [source.surface(piece) for piece in pieces]
    return target.text(ids, replacements(ids, attended(attention), words, lexicon))
