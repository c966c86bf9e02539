"""Moses tokenisation as the paper used it: raw text -> words between spaces, and back (extra: paper, sacremoses)."""

from __future__ import annotations

import re

from convs2s.errors import UserError

_LONG_RUN = "." * 1000
NEEDS_PAPER = "text.kind=moses_bpe needs sacremoses and subword-nmt: pip install -e '.[paper]'"


class Moses:
    """One language's tokeniser. ``punctuation``: normalise punctuation first; ``lowercase``: lower-case in the end.

    Raises UserError when sacremoses is not installed.
    """

    def __init__(self, language: str, punctuation: bool, lowercase: bool) -> None:
        try:
            from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
        except ImportError:
            raise UserError(NEEDS_PAPER) from None
        self.language, self.punctuation, self.lowercase = language, punctuation, lowercase
        self._tokenizer = MosesTokenizer(language)
        self._normalizer = MosesPunctNormalizer(language)
        self._detokenizer = MosesDetokenizer(language)

    def segment(self, line: str) -> str:
        """The words of a line, separated by single spaces; characters that are special to Moses are escaped."""
        if _LONG_RUN in line:  # sacremoses takes time quadratic in a run of periods: hours for a million
            line = re.sub(rf"\.{{{len(_LONG_RUN)},}}", _LONG_RUN, line)
        if self.punctuation:
            line = self._normalizer.normalize(line)
        text = split_last_period(" ".join(self._tokenizer.tokenize(line)))
        return text.lower() if self.lowercase else text

    def join(self, words: str) -> str:
        """Plain text of words separated by spaces."""
        text: str = self._detokenizer.detokenize(words.split(" "))
        return text


def split_last_period(text: str) -> str:
    """A period that ends a sentence is a word, whatever it follows: ``usw.`` -> ``usw .``.

    Moses' own program says so (tokenizer.perl: the last word is unlikely to be an abbreviation); sacremoses leaves it
    with one-letter words, numbers, known abbreviations and words that hold a period.
    """
    last = text[text.rfind(" ") + 1 :]
    if len(last) > 1 and last[-1] == "." and last[-2] != ".":
        return f"{text[:-1]} ."
    return text
