"""Draw the attention of each decoder layer: python scripts/plot_attention.py checkpoint=FILE input=FILE output=FOLDER

Each line is translated; line N's picture is FOLDER/lineN.png, one panel for each layer that attends and one for their
average, source pieces across, target pieces down. Needs the extra "plot".
"""

from __future__ import annotations

from pathlib import Path

from convs2s.cli import run
from convs2s.config import PlotAttentionConfig
from convs2s.evaluation.attention_picture import draw
from convs2s.evaluation.models import load_models
from convs2s.search.streams import read_input
from convs2s.search.translate import translate_lines
from convs2s.text.vocabulary import EOS, SPECIALS


def main(config: PlotAttentionConfig) -> None:
    models, tokenizers = load_models([config.checkpoint], config.device, config.search.precision)
    lines = list(read_input(config.input))
    attends = models[0].config.decoder.attending()
    numbers = [number for number, attend in enumerate(attends, start=1) if attend]
    results = translate_lines(models, tokenizers, lines, config.search, name=config.input, attention=True, layers=True)
    for number, (line, (best, *_)) in enumerate(zip(lines, results, strict=True), start=1):
        if best.hypothesis is None or best.hypothesis.layers is None:
            continue  # a blank line
        path = Path(config.output) / f"line{number}.{config.format.value}"
        source = [*tokenizers.source.pieces(line), SPECIALS[EOS]]
        target = [tokenizers.target.symbols[i] for i in best.hypothesis.ids]
        draw(path, source, target, best.hypothesis.layers.float().numpy(), numbers)
        print(f"{path}: {best.text}")


if __name__ == "__main__":
    run(main, PlotAttentionConfig, "plot_attention")
