"""The authors' Lua release: its Torch7 files (model.th7, dict.xx.th7) as a checkpoint of ours.

Nothing in these files says how the model was configured. The architecture is inferred from the graph of modules
(original: models/fconv_model.lua): its authors named the nodes 'encoder', 'convlm' (the decoder without its output
layers) and 'convBlock_i', the rest follows from what is connected to what, and every weight must find its place once.

A weight-normalised layer has v (out, fan_in), g (out, 1), bias (out,). The optimised form (-fconvfast) wraps the
convolutions, and old files hold the effective weight too: neither matters, only v, g and bias are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from convs2s.config import ConvertConfig, DecoderConfig, EncoderConfig, LayerConfig, ModelConfig, SourcePadding
from convs2s.errors import UserError
from convs2s.interop import torch7
from convs2s.interop.checkpoint import Checkpoint, assemble
from convs2s.interop.nngraph import (
    DROPOUT,
    GRAPH,
    LOOKUP,
    WEIGHT_NORM,
    Node,
    UnlikelyError,
    children,
    drop_probability,
    find,
    graph,
    is_layer,
    walk,
    weights,
)
from convs2s.interop.torch7 import Object, Table
from convs2s.text.vocabulary import EOS, PAD, SPECIALS, UNK

T = TypeVar("T")


def read(config: ConvertConfig) -> Checkpoint:
    """``model``, ``source_dict`` and ``target_dict`` as a checkpoint; UserError for files of another kind."""
    architecture, state = read_model(config.model_)
    words = (
        read_words(config.source_dict, "source", len(state["encoder.embed_tokens.weight"])),
        read_words(config.target_dict, "target", len(state["decoder.embed_tokens.weight"])),
    )
    return assemble(config, architecture, state, words)


def read_model(path: str) -> tuple[ModelConfig, dict[str, Tensor]]:
    """The architecture and, under our names and in float32, the weights of a model file."""
    model = torch7.load(path)
    if not isinstance(model, Object) or model.kind != "FConvModel" or not isinstance(model.get("module"), Object):
        kind = model.kind if isinstance(model, Object) else type(model).__name__.lower()
        raise UserError(f"{path}: holds a {kind}, no FConvModel; give the model_*.th7 of a training with -model fconv")
    try:
        return _ModelReader(path, model.get("module")).read()
    except UnlikelyError as error:
        raise UserError(f"{path}: {error}; is it a fconv model of the Lua release?") from None


def read_words(path: str | None, side: str, rows: int) -> list[str]:
    """The words of a dictionary file from our id 3 on, up to its cutoff (original: text/Dictionary.lua).

    rows: words that the model knows, the specials included. Bytes that are not UTF-8 become U+FFFD.
    """
    if path is None:
        raise UserError(f"{side}_dict must be given: the dict.xx.th7 that training wrote beside the model")
    dictionary = torch7.load(path)
    symbols = dictionary.get("index_to_symbol") if isinstance(dictionary, Object) else None
    if not isinstance(symbols, Table):
        raise UserError(f"{path}: not a dictionary; give {side}_dict= the dict.xx.th7 of the model's {side} language")
    words = [word.encode("utf-8", "surrogateescape") for word in symbols.sequence() if isinstance(word, str)]
    for name, number in (("unk_index", UNK), ("pad_index", PAD), ("eos_index", EOS)):
        if dictionary.get(name) != number + 1 or words[number : number + 1] != [SPECIALS[number].encode()]:
            raise UserError(f"{path}: symbol {number + 1} is not {SPECIALS[number]}; give a dictionary of fconv")
    cutoff = dictionary.get("cutoff")
    if cutoff is None:
        cutoff = len(words)
    if cutoff != rows or rows > len(words):
        size = str(cutoff).removesuffix(".0")
        raise UserError(f"{path}: {size} words, but the model has {rows}; give the {side} dictionary it was made with")
    for number, word in enumerate(words[:rows], start=1):
        if b" " in word or b"\n" in word:
            raise UserError(f"{path}: symbol {number} has a space or line end in it; copy or download the file again")
    return [word.decode("utf-8", "replace") for word in words[len(SPECIALS) : rows]]


@dataclass
class _Stack:
    """The layers of an encoder or decoder, collected from the bottom up."""

    width: int  # channels of the last layer
    layers: list[LayerConfig] = field(default_factory=list)
    insides: list[tuple[int, int]] = field(default_factory=list)  # of each block: channels in, channels inside


class _ModelReader:
    def __init__(self, path: str, root: Object) -> None:
        self.path = path
        self.root = root
        self.state: dict[str, Tensor] = {}
        self.used: set[int] = set()  # ids of the modules whose weights have found their place

    def fail(self, problem: str) -> NoReturn:
        raise UserError(f"{self.path}: {problem}; is it a fconv model of the Lua release?")

    def read(self) -> tuple[ModelConfig, dict[str, Tensor]]:
        encoder, decoder = self.named("encoder"), self.named("convlm")
        source, source_dropout = self.encoder(encoder)
        target, attention, target_dropout = self.decoder(decoder)
        inner = {id(m) for part in (encoder, decoder) for m in walk(part)}
        outside = [m for m in walk(self.root) if id(m) not in inner]
        output_width = self.output(outside)
        if any(id(module) not in self.used for module in find(self.root, WEIGHT_NORM, LOOKUP)):
            self.fail("it has weights that ConvS2S does not have")
        if not source.layers or not target.layers:
            self.fail("its encoder or decoder has no blocks")
        positions = [len(self.state[f"{side}.embed_positions.weight"]) for side in ("encoder", "decoder")]
        widths = [self.state[f"{side}.embed_tokens.weight"].shape[1] for side in ("encoder", "decoder")]
        config = ModelConfig(
            embedding=widths[0],
            output_embedding=output_width,
            encoder=EncoderConfig(layers=source.layers),
            decoder=DecoderConfig(
                layers=target.layers,
                attention=None if all(attention) else [n for n, attends in enumerate(attention, 1) if attends],
            ),
            bottleneck=self.bottleneck(source.insides + target.insides),
            lookup_output="decoder.output.weight" in self.state,
            max_positions=positions[0],
            max_target_positions=None if positions[1] == positions[0] else positions[1],
            dropout_source=source_dropout[0],
            dropout_target=target_dropout[0],
            dropout_hidden=max(source_dropout[1], target_dropout[1]),
            dropout_output=drop_probability(outside),
            source_padding=SourcePadding.original,
        )
        return config, self.state

    def encoder(self, module: Object) -> tuple[_Stack, tuple[float, float]]:
        """Embeddings, then a sequence of in_proj, blocks (a ConcatTable of block and residual each) and out_proj.

        Returns the stack and the drop probabilities of embeddings and blocks.
        """
        nodes = graph(module)
        embedding = self.embeddings("encoder", nodes)
        cnn = self.only([n for n in nodes if weights(n.module)], "network in the encoder").module
        layers = weights(cnn)
        stack = _Stack(self.layer("encoder.in_proj", layers[:1])[0])
        for number, pair in enumerate(find(cnn, "nn.ConcatTable")):
            block, residual = self.exactly(children(pair), 2, f"branches of encoder block {number + 1}")
            self.block(f"encoder.layers.{number}", stack, weights(block), weights(residual))
            if stack.layers[-1].kernel % 2 == 0:
                self.fail(f"encoder block {number + 1} has an even kernel")
        self.layer("encoder.out_proj", layers[-1:])
        return stack, (drop_probability(list(walk(embedding.module))), drop_probability(list(walk(cnn))))

    def decoder(self, module: Object) -> tuple[_Stack, list[bool], tuple[float, float]]:
        """Embeddings, in_proj, and blocks in a graph, each perhaps with a residual projection and attention.

        Returns the stack, which layers attend, and the drop probabilities of embeddings and blocks.
        """
        nodes = graph(module)
        embedding = self.embeddings("decoder", nodes)
        projection = self.only([n for n in embedding.users if is_layer(n)], "projection of the target embeddings")
        stack = _Stack(self.layer("decoder.in_proj", weights(projection.module))[0])
        blocks = {int(match[1]): n for n in nodes if (match := re.fullmatch(r"convBlock_(\d{1,6})", n.name))}
        attention, dropouts = [], []
        for number in range(1, len(blocks) + 1):
            if number not in blocks:
                self.fail(f"decoder block {number} is missing")
            node, name, what = blocks[number], f"decoder.layers.{number - 1}", f"decoder block {number}"
            start = self.only(node.inputs, f"input of {what}")
            if start.module is not None and start.module.kind == DROPOUT:
                dropouts.append(start.module)
                start = self.only(start.inputs, f"input of {what}")
            residual = [w for n in start.users if n is not node and is_layer(n) for w in weights(n.module)]
            self.block(name, stack, weights(node.module), residual)
            readers = [n for n in node.users if n.module is not None and n.module.kind == GRAPH]
            attention.append(bool(readers))
            if readers:
                reader = self.only(readers, f"attention of {what}")
                self.layer(f"{name}.attention.in_proj", weights(reader.module))
                outward = self.only([n for n in reader.users if is_layer(n)], f"attention of {what}")
                self.layer(f"{name}.attention.out_proj", weights(outward.module))
        return stack, attention, (drop_probability(list(walk(embedding.module))), drop_probability(dropouts))

    def output(self, modules: Sequence[Object]) -> int:
        """The last two layers, from what is neither encoder nor 'convlm'; returns the width between them.

        With vocabulary selection the last one is a table of rows [weight, bias] (original: models/fconv_model.lua),
        and stays one: decoder.output.weight.
        """
        layers = [m for m in modules if m.kind == WEIGHT_NORM]
        tables = [m for m in modules if m.kind == LOOKUP]
        width = self.layer("decoder.out_embed_proj", layers[:1])[0]
        if not tables:
            self.layer("decoder.output", layers[1:])
            return width
        rows = self.table(self.only(tables, "output tables"))
        if rows.shape[1] != width + 1 or len(layers) > 1:
            self.fail(f"the output table has rows of {rows.shape[1]} numbers instead of {width + 1}")
        self.state["decoder.output.weight"] = rows
        return width

    def embeddings(self, side: str, nodes: Sequence[Node]) -> Node:
        """The node that adds word and position embeddings."""
        node = self.only([n for n in nodes if find(n.module, LOOKUP)], f"{side} embeddings")
        tables = self.exactly(find(node.module, LOOKUP), 2, f"tables of the {side} embeddings")
        for name, module in zip(("embed_tokens", "embed_positions"), tables, strict=True):
            if module.get("paddingValue") not in (None, PAD + 1.0):
                self.fail(f"the {side} embeddings have another padding symbol than {PAD + 1}")
            self.state[f"{side}.{name}.weight"] = self.table(module)
        return node

    def block(self, name: str, stack: _Stack, layers: list[Object], residual: list[Object]) -> None:
        """A gated block: one convolution, or one between two linear layers, and the residual's projection."""
        narrow = len(self.exactly(layers, 3 if len(layers) == 3 else 1, f"layers of {name}")) == 3
        inside = self.layer(f"{name}.bottleneck_in", layers[:1])[0] // 2 if narrow else stack.width
        out, fan_in = self.layer(f"{name}.conv", layers[1:2] if narrow else layers)
        if narrow:
            out, _ = self.layer(f"{name}.bottleneck_out", layers[2:])
        if inside == 0 or fan_in % inside or out % 2:
            self.fail(f"{name} has a convolution from {inside} channels with {out} x {fan_in} weights")
        if residual:
            self.layer(f"{name}.residual_proj", residual)
        stack.insides.append((stack.width, inside))
        stack.layers.append(LayerConfig(channels=out // 2, kernel=fan_in // inside))
        stack.width = out // 2

    def bottleneck(self, widths: list[tuple[int, int]]) -> int:
        """The factor by which every block narrows its input inside; 0 where none has a bottleneck."""
        if not any(name.endswith("bottleneck_in.v") for name in self.state):
            return 0
        for factor in range(1, max(outside for outside, _ in widths) + 1):
            if all(outside // factor == inside for outside, inside in widths):
                return factor
        self.fail("its blocks are not narrowed by the same factor")

    def layer(self, name: str, modules: Sequence[Object]) -> tuple[int, int]:
        """Take the weights of the one module given, under our name; returns (out, fan_in)."""
        module = self.only(modules, name)
        v, g, bias = (self.parameter(module, key) for key in ("v", "g", "bias"))
        if g.numel() != len(v) or bias.numel() != len(v):
            self.fail(f"{name} has {list(v.shape)} weights, {g.numel()} gains and {bias.numel()} biases")
        self.state |= {
            f"{name}.v": v.reshape(len(v), -1),
            f"{name}.g": g.reshape(-1, 1),
            f"{name}.bias": bias.flatten(),
        }
        return len(v), v.numel() // len(v)

    def table(self, module: Object) -> Tensor:
        rows = self.parameter(module, "weight")
        if rows.dim() != 2:
            self.fail(f"a lookup table has {rows.dim()} dimensions")
        return rows

    def parameter(self, module: Object, key: str) -> Tensor:
        """A copy in float32."""
        self.used.add(id(module))
        tensor = module.get(key)
        if not isinstance(tensor, torch7.Tensor) or tensor.storage is None or tensor.array.dtype.kind != "f":
            self.fail(f"a {module.kind} has no {key}")
        if not 0 < tensor.array.size <= len(tensor.storage.array):  # an expanded tensor could fill the memory
            self.fail(f"{key} of a {module.kind} has the sizes {list(tensor.array.shape)}")
        return torch.from_numpy(np.array(tensor.array, np.float32, order="C"))

    def named(self, name: str) -> Object:
        """The module of the node that the authors' program named so."""
        nodes = [n for m in find(self.root, GRAPH) for n in graph(m) if n.name == name and n.module is not None]
        module = self.only(nodes, f"parts named {name!r}").module
        assert module is not None
        return module

    def only(self, found: Sequence[T], what: str) -> T:
        return self.exactly(found, 1, what)[0]

    def exactly(self, found: Sequence[T], count: int, what: str) -> Sequence[T]:
        if len(found) != count:
            self.fail(f"{what}: found {len(found)} instead of {count}")
        return found
