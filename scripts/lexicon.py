"""Count which words were aligned: python scripts/lexicon.py source=train.de target=train.en output=de-en.tsv

For search.unknown.lexicon (words for <unk>) and search.selection.lexicon (vocabulary selection; give checkpoint=, so
that the words are the model's pieces). alignment= takes a file in Pharaoh format, as fast_align or eflomal write it;
without it the alignment is learnt by IBM model 1.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice

from convs2s.cli import run
from convs2s.config import LexiconConfig, check_minimum
from convs2s.data.lines import read_pairs
from convs2s.errors import UserError
from convs2s.files import check_outputs
from convs2s.messages import say
from convs2s.search.alignment import ibm_model_1
from convs2s.search.lexicon import count_links, lexicon_lines, read_links
from convs2s.search.streams import open_output
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer
from convs2s.training.checkpoint import build_tokenizers, load


def main(config: LexiconConfig) -> None:
    check_minimum("", config, {"iterations": 1, "max_pairs": 1})
    if config.alignment is not None and config.alignment_output is not None:
        raise UserError("alignment_output is for a learnt alignment: give it or alignment=, not both")
    names = ("source", "target", "alignment", "checkpoint")
    check_outputs(
        {"output": config.output, "alignment_output": config.alignment_output},
        {name: [getattr(config, name)] for name in names},
    )
    if config.checkpoint is None:
        words = WhitespaceTokenizer([]).pieces
        split = (words, words)
    else:
        tokenizers = build_tokenizers(load(config.checkpoint))
        split = (tokenizers.source.pieces, tokenizers.target.pieces)
    with ExitStack() as stack:
        write = stack.enter_context(open_output(config.output))
        write_links = None
        if config.alignment_output is not None:
            write_links = stack.enter_context(open_output(config.alignment_output, "alignment_output"))
        lines = read_pairs(config.source, config.target)
        pairs = ((split[0](source), split[1](target)) for source, target in lines)
        if config.alignment is not None:
            lexicon = count_links(pairs, read_links(config.alignment), config.alignment)
        else:
            learnt = list(islice(pairs, config.max_pairs))
            links = list(ibm_model_1(learnt, config.iterations))
            lexicon = count_links(learnt, links)
            if write_links is not None:
                for of_pair in links:
                    write_links(" ".join(f"{source}-{target}" for source, target in of_pair))
        for line in lexicon_lines(lexicon):
            write(line)
    say(f"{config.output}: {len(lexicon):,} words, {sum(map(len, lexicon.values())):,} pairs")


if __name__ == "__main__":
    run(main, LexiconConfig, "lexicon")
