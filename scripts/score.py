"""How probable a model finds given translations: python scripts/score.py checkpoint=FILE source=FILE target=FILE

Forced decoding. Writes a tab-separated table with a head: line, score (log-probability / tokens ^ search.lenpen),
log-probability (natural logarithm, </s> included), tokens and perplexity. checkpoint=[FILE,FILE] lets several vote.
Of search only lenpen, average, precision, batch_size and batch_tokens count.
"""

from __future__ import annotations

from convs2s.cli import files, run
from convs2s.config import ScoreConfig
from convs2s.data.lines import read_pairs
from convs2s.evaluation.models import load_models
from convs2s.files import check_outputs
from convs2s.search.scoring import HEADER, score_lines
from convs2s.search.streams import open_output


def main(config: ScoreConfig) -> None:
    config.search.check()
    paths = files("checkpoint", config.checkpoint)
    check_outputs(
        {"output": config.output}, {"checkpoint": paths, "source": [config.source], "target": [config.target]}
    )
    models, tokenizers = load_models(paths, config.device, config.search.precision)
    with open_output(config.output) as write:
        write(HEADER)
        pairs = read_pairs(config.source, config.target)
        for number, score in enumerate(score_lines(models, tokenizers, pairs, config.search, name=config.source), 1):
            write(score.line(number))


if __name__ == "__main__":
    run(main, ScoreConfig, "score")
