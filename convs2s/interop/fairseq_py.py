"""Checkpoints of the authors' PyTorch release (fairseq ``fconv``, 2017 to 2022) as ours.

Where that program differs from the original, the converted model's options say so: no epsilon in weight normalisation,
the encoder's gradient scaled at its output, padding masked in files since mid-2018 and not before, targets padded on
the left in the first release. Its ids are <s> 0 (formerly a heritage entry without use), <pad> 1, </s> 2, <unk> 3,
words; ours are <unk> 0, <pad> 1, </s> 2, then <s> and the words: the rows of embeddings and output move accordingly.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from torch import Tensor

from convs2s.config import (
    Annealing,
    ConvertConfig,
    DecoderConfig,
    EncoderConfig,
    EncoderGradient,
    LayerConfig,
    ModelConfig,
    Normalize,
    OptimizerConfig,
    SourcePadding,
    TargetPadding,
    TokenizerKind,
    to_plain,
)
from convs2s.data.lines import read_lines
from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.interop.checkpoint import assemble
from convs2s.interop.fairseq_settings import Settings, read_settings
from convs2s.interop.fairseq_weights import Weights
from convs2s.interop.torch_file import TorchFile
from convs2s.messages import say
from convs2s.text.moses import Moses
from convs2s.text.moses_bpe_tokenizer import MosesBpeTokenizer, read_codes
from convs2s.text.tokenizer import Tokenizers

HERITAGE = "<Lua heritage>"  # the first entry of vocabularies before <s> took its place
OVERWRITE = " #fairseq:overwrite"


def read(config: ConvertConfig) -> dict[str, Any]:
    """The checkpoint, in our form, of a fairseq file and its two dictionaries.

    Raises UserError for files that are damaged, hostile, no ``fconv`` model, or of a form that ours has not; the
    message names it.
    """
    if config.source_dict is None or config.target_dict is None:
        raise UserError("from=fairseq_py needs source_dict= and target_dict=, the files dict.xx.txt beside the model")
    file = TorchFile(config.model_)
    settings, weights = read_settings(file), Weights(file)
    model, parameters = convert_model(weights, settings)
    weights.check_empty()
    first = "<s>" if settings.has_start_symbol else HERITAGE
    words = []
    for path, side in ((config.source_dict, "encoder"), (config.target_dict, "decoder")):
        words.append([first, *read_dictionary(path)])
        rows = len(parameters[f"{side}.embed_tokens.weight"])
        if len(words[-1]) + 3 != rows:
            raise UserError(f"{path}: {len(words[-1]) - 1} words and 4 specials, but {file.path} knows {rows}")
    checkpoint = assemble(config, model, parameters, (words[0], words[1]))
    checkpoint["config"]["optimizer"] = to_plain(optimizer(settings))
    data = checkpoint["config"]["data"]  # the languages of the dictionaries' names, unless the settings know better
    data |= {side: settings.text(f"{side}_lang", data[side]) for side in ("source", "target")}
    if config.codes is not None:
        read_raw_text(checkpoint, words, config.codes)
    return checkpoint


def read_raw_text(checkpoint: dict[str, Any], words: list[list[str]], path: str) -> None:
    """Let the model read and write raw text: Moses words, split by the BPE codes at ``path``."""
    codes, data, text = read_codes(path), checkpoint["config"]["data"], checkpoint["config"]["text"]
    text |= {"kind": TokenizerKind.moses_bpe.value, "codes": path, "joiner": ""}
    moses = (Moses(data[side], text["punctuation"], text["lowercase"]) for side in ("source", "target"))
    tokenizers = Tokenizers(*(MosesBpeTokenizer(own, codes, side) for own, side in zip(words, moses, strict=True)))
    checkpoint["tokenizers"] = tokenizers.state()
    checkpoint["origin"]["files"][Path(path).name] = sha256(Path(path))


def read_dictionary(path: str | Path) -> list[str]:
    """The words of a ``dict.xx.txt``, lines "word count" (in late files followed by a mark), in order.

    A word that stands there twice has two rows in the model, of which that program reads the later; so does ours.
    """
    words: list[str] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(read_lines(Path(path)), 1):
        word, space, count = line.removesuffix(OVERWRITE).rpartition(" ")
        if not space or not count.strip().isdecimal():
            raise UserError(f'{path}, line {number}: not "word count"; give the dict.xx.txt beside the model')
        if word in lines:
            say(f"warning: {path}, line {number}: {word!r} stood in line {lines[word]} already; the later one counts")
        lines[word] = number
        words.append(word)
    return words


def our_order(rows: int) -> list[int]:
    """Row r of ours is row ``our_order[r]`` of theirs."""
    return [3, 1, 2, 0, *range(4, rows)]


def convert_model(weights: Weights, settings: Settings) -> tuple[ModelConfig, dict[str, Tensor]]:
    """The options and parameters of our model; sizes come from the weights, what they do not show from the settings."""
    parameters: dict[str, Tensor] = {}
    encoder, decoder = (take_stack(weights, side, parameters) for side in ("encoder", "decoder"))
    parameters |= weights.layer("encoder.fc2").parameters("encoder.out_proj")
    attending = [i for i in range(len(decoder)) if f"decoder.attention.{i}.in_projection.bias" in weights]
    for i in attending:
        for part in ("in", "out"):
            layer = weights.layer(f"decoder.attention.{i}.{part}_projection")
            parameters |= layer.parameters(f"decoder.layers.{i}.attention.{part}_proj")
    hidden = weights.layer("decoder.fc2")
    parameters |= hidden.parameters("decoder.out_embed_proj")
    shared = take_output(weights, settings, parameters)

    rows = [len(parameters.get(f"{side}.embed_positions.weight", ())) for side in ("encoder", "decoder")]
    config = ModelConfig(
        embedding=parameters["encoder.embed_tokens.weight"].shape[1],
        output_embedding=len(hidden.bias),
        encoder=EncoderConfig(
            layers=grouped(encoder), positions=rows[0] > 0, residuals=settings.residuals("encoder", encoder)
        ),
        decoder=DecoderConfig(
            layers=grouped(decoder),
            positions=rows[1] > 0,
            attention=None if len(attending) == len(decoder) else [i + 1 for i in attending],
            residuals=settings.residuals("decoder", decoder),
        ),
        max_positions=rows[0] or settings.positions("source"),
        max_target_positions=rows[1] or settings.positions("target"),
        share_output=shared,
        dropout=settings.number("dropout", 0.1),
        source_padding=SourcePadding.masked if settings.masks_padding else SourcePadding.original,
        target_padding=TargetPadding.left if settings.pads_target_left else TargetPadding.right,
        encoder_gradient=EncoderGradient.output,
        weight_norm_eps=0.0,
    )
    return config, parameters


def take_stack(weights: Weights, side: str, parameters: dict[str, Tensor]) -> list[LayerConfig]:
    """Add what encoder and decoder have alike to the parameters; returns the side's layers."""
    table = weights.take(f"{side}.embed_tokens.weight", 2)
    parameters[f"{side}.embed_tokens.weight"] = table[our_order(len(table))]
    if f"{side}.embed_positions.weight" in weights:
        parameters[f"{side}.embed_positions.weight"] = weights.take(f"{side}.embed_positions.weight", 2)
    parameters |= weights.layer(f"{side}.fc1").parameters(f"{side}.in_proj")
    layers = []
    for i in range(weights.count(f"{side}.convolutions")):
        conv = weights.layer(f"{side}.convolutions.{i}", convolution=True)
        layers.append(LayerConfig(len(conv.bias) // 2, conv.kernel))
        parameters |= conv.parameters(f"{side}.layers.{i}.conv")
        if f"{side}.projections.{i}.bias" in weights:
            projection = weights.layer(f"{side}.projections.{i}")
            parameters |= projection.parameters(f"{side}.layers.{i}.residual_proj")
    return layers


def take_output(weights: Weights, settings: Settings, parameters: dict[str, Tensor]) -> bool:
    """Add the output layer; returns whether its weights are the target embeddings."""
    table = parameters["decoder.embed_tokens.weight"]
    order = our_order(len(table))
    if "decoder.fc3.bias" not in weights:
        raise UserError(f"{weights.file.path}: not supported: an output layer other than fc3 (adaptive softmax)")
    if settings.flag("share_input_output_embed"):
        weights.stored.pop("decoder.fc3.weight", None)
        bias = weights.take("decoder.fc3.bias", 1)
        parameters |= {"decoder.output.weight": table, "decoder.output.bias": bias[order[: len(bias)]]}
        return True
    output = weights.layer("decoder.fc3")
    if len(output.bias) != len(table):
        raise UserError(
            f"{weights.file.path}: decoder.fc3, the output layer, scores {len(output.bias)} words, not {len(table)}"
        )
    parameters |= output.rows(order).parameters("decoder.output")
    return False


def grouped(layers: list[LayerConfig]) -> list[LayerConfig]:
    """Equal neighbours as one entry with a repetition."""
    pairs = [(layer.channels, layer.kernel) for layer in layers]
    return [LayerConfig(channels, kernel, len(list(run))) for (channels, kernel), run in groupby(pairs)]


def optimizer(settings: Settings) -> OptimizerConfig:
    """The recipe, for fine-tuning as that program would: the velocity is rescaled with the learning rate."""
    config = OptimizerConfig(rescale_velocity=True)
    if settings.text("optimizer", "nag") == "nag":
        config.lr = settings.number("lr", config.lr)
        config.momentum = settings.number("momentum", config.momentum)
        config.clip = settings.number("clip_norm", config.clip)
        config.weight_decay = settings.number("weight_decay", 0.0)
        config.annealing = Annealing.slow
        config.normalize = Normalize.sentences if settings.flag("sentence_avg") else Normalize.tokens
        shrink = settings.number("lr_shrink", settings.number("lrshrink", 1.0 / config.shrink))
        config.shrink = 1.0 / shrink if 0.0 < shrink < 1.0 else config.shrink
    return config
