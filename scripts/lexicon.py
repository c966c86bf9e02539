"""Count which words were aligned: python scripts/lexicon.py source=train.de target=train.en output=de-en.tsv

For search.unknown.lexicon (words for <unk>) and search.selection.lexicon (vocabulary selection; give checkpoint=, so
that the words are the model's pieces). alignment= takes a file in Pharaoh format, as fast_align or eflomal write it;
without it the alignment is learnt by IBM model 1.
"""

from __future__ import annotations

from itertools import islice

from convs2s.cli import run
from convs2s.config import LexiconConfig, check_minimum
from convs2s.data.lines import read_pairs
from convs2s.search.alignment import ibm_model_1
from convs2s.search.lexicon import count_links, read_links, write_lexicon
from convs2s.search.streams import open_output
from convs2s.training.checkpoint import build_tokenizers, load


def main(config: LexiconConfig) -> None:
    check_minimum("", config, {"iterations": 1, "max_pairs": 1})
    if config.checkpoint is None:
        split = (words, words)
    else:
        tokenizers = build_tokenizers(load(config.checkpoint))
        split = (tokenizers.source.pieces, tokenizers.target.pieces)
    lines = read_pairs(config.source, config.target)
    pairs = ((split[0](source), split[1](target)) for source, target in lines)
    if config.alignment is not None:
        lexicon = count_links(pairs, read_links(config.alignment), config.alignment)
    else:
        learnt = list(islice(pairs, config.max_pairs))
        links = list(ibm_model_1(learnt, config.iterations))
        lexicon = count_links(learnt, links)
        if config.alignment_output is not None:
            with open_output(config.alignment_output) as write:
                for of_pair in links:
                    write(" ".join(f"{source}-{target}" for source, target in of_pair))
    write_lexicon(config.output, lexicon)
    print(f"{config.output}: {len(lexicon):,} words, {sum(map(len, lexicon.values())):,} pairs")


def words(line: str) -> list[str]:
    """What stands between spaces; a tab counts as one."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


if __name__ == "__main__":
    run(main, LexiconConfig, "lexicon")
