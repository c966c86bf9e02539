"""Models as the Lua release saves them, built from a model of ours: module graphs in the reader's types.

They follow the files in golden/ (toy_a.th7: training form, tiny_model_opt.th7: optimised form) in everything that
a reader can rely on, and leave out what it can't need.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convs2s.interop.torch7 import Object, Storage, Table, Tensor
from convs2s.model import ConvS2S

SQRT_HALF = 0.7071067811865476


def sequence(*items: Any) -> Table:
    return Table({float(number): item for number, item in enumerate(items, start=1)})


def module(kind: str, *children: Object, **fields: Any) -> Object:
    """An nn object."""
    content: dict[Any, Any] = {"train": False, **fields}
    if children:
        content["modules"] = sequence(*children)
    return Object(f"nn.{kind}", "1", Table(content))


@dataclass(eq=False)
class GraphNode:
    """A node of a graph that is being built."""

    data: Table

    @classmethod
    def make(cls, inner: Object | None, *inputs: GraphNode, name: str | None = None) -> GraphNode:
        entries: dict[Any, Any] = {
            "annotations": Table({} if name is None else {"name": name}),
            "mapindex": sequence(*(node.data for node in inputs)),
        }
        for number, node in enumerate(inputs, start=1):
            entries["mapindex"].entries[node.data] = float(number)
        if inner is not None:
            entries["module"] = inner
        return cls(Table(entries))


def gmodule(*nodes: GraphNode) -> Object:
    """nngraph's gModule over nodes in order of execution."""
    listed = [Object("nngraph.Node", "1", Table({"id": float(n), "data": node.data})) for n, node in enumerate(nodes)]
    return Object("nn.gModule", "1", Table({"forwardnodes": sequence(*listed), "train": False}))


@dataclass
class Builder:
    """Builds the Lua form of ``model``."""

    model: ConvS2S
    optimised: bool = False  # -fconvfast
    with_weight: bool = False  # as nn stored it until May 2017
    dropout: float = 0.1
    parameters: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = {name: value.detach().numpy() for name, value in self.model.state_dict().items()}
        # As getParameters() does: all of them in one storage.
        self.flat = Storage("torch.FloatStorage", np.concatenate([value.ravel() for value in self.parameters.values()]))
        self.offsets: dict[str, int] = {}
        position = 0
        for name, value in self.parameters.items():
            self.offsets[name] = position
            position += value.size

    def tensor(self, name: str) -> Tensor:
        shape, offset = self.parameters[name].shape, self.offsets[name]
        size = int(np.prod(shape))
        return Tensor("torch.FloatTensor", self.flat.array[offset : offset + size].reshape(shape), self.flat)

    def loose(self, array: np.ndarray) -> Tensor:
        store = Storage("torch.FloatStorage", np.ascontiguousarray(array, np.float32).ravel())
        return Tensor("torch.FloatTensor", store.array.reshape(array.shape), store)

    def layer(self, name: str, kind: str = "Linear", **fields: Any) -> Object:
        tensors: dict[str, Any] = {key: self.tensor(f"{name}.{key}") for key in ("v", "g", "bias")}
        inner: dict[str, Any] = {"bias": tensors["bias"], **fields}
        if self.with_weight:
            v, g = (self.parameters[f"{name}.{key}"] for key in ("v", "g"))
            inner["weight"] = self.loose(g * v / np.sqrt((v**2).sum(1, keepdims=True) + 1e-4))
            tensors["weight"] = inner["weight"]
            tensors["gradWeight"] = self.loose(np.zeros_like(v))
        return module("WeightNorm", module(kind, **inner), **tensors, outputDim=1.0)

    def linear(self, name: str) -> Object:
        return module("Bottle", self.layer(name), nInputDim=2.0)

    def conv(self, name: str) -> list[Object]:
        conv = self.layer(name, "TemporalConvolutionTBC", kw=float(self.model.get_submodule(name).kernel))
        if not name.startswith("decoder"):
            return [conv]
        parts = [module("Transpose"), conv, module("Transpose"), module("Narrow", dimension=2.0, index=1.0)]
        if not self.optimised:
            return parts
        empty = module("LinearizedConvolution", kw=0.0, weight=Tensor("torch.FloatTensor", np.empty(0, "f4"), None))
        return [module("ConvBlockTrainTestLayer", module("Sequential", *parts), empty)]

    def block(self, name: str) -> Object:
        gate = module("GatedLinearUnit")
        conv = self.conv(f"{name}.conv")
        if f"{name}.bottleneck_in.v" in self.parameters:
            before, after = self.linear(f"{name}.bottleneck_in"), self.linear(f"{name}.bottleneck_out")
            conv = [before, module("GatedLinearUnit"), *conv, module("GatedLinearUnit"), after]
        return module("Sequential", *conv, gate)

    def drop(self) -> list[Object]:
        return [module("Dropout", p=self.dropout)] if self.dropout else []

    def total(self) -> Object:
        return module("CAddTableMulConstant", constant_scalar=SQRT_HALF)

    def embedding(self, side: str) -> Object:
        tables = (
            module("LookupTable", weight=self.tensor(f"{side}.{name}.weight"), paddingValue=2.0)
            for name in ("embed_tokens", "embed_positions")
        )
        return module("Sequential", module("ParallelTable", *tables), module("CAddTable"), *self.drop())

    def residual(self, name: str) -> Object:
        return self.linear(name) if f"{name}.v" in self.parameters else module("Identity")

    def encoder(self) -> Object:
        blocks: list[Object] = []
        for number in range(len(self.model.encoder.layers)):
            name = f"encoder.layers.{number}"
            block = module("Sequential", *self.drop(), self.block(name))
            blocks += [module("ConcatTable", block, self.residual(f"{name}.residual_proj")), self.total()]
        stack = module("Sequential", module("Transpose"), *blocks, module("Transpose"))
        first, last = self.linear("encoder.in_proj"), self.linear("encoder.out_proj")
        cnn = module("GradMultiply", module("Sequential", first, module("Contiguous"), stack, last))
        start = GraphNode.make(None)
        embedded = GraphNode.make(self.embedding("encoder"), start)
        keys = GraphNode.make(cnn, embedded)
        values = GraphNode.make(self.total(), keys, embedded)
        return gmodule(start, embedded, keys, values, GraphNode.make(None, keys, values))

    def attention(self, name: str, number: int) -> Object:
        start = GraphNode.make(None)
        query = GraphNode.make(self.total(), GraphNode.make(self.linear(f"{name}.in_proj"), start), start)
        scores = GraphNode.make(module("BeamableMM"), query, start)
        softmax = GraphNode.make(module("Bottle", module("SoftMax")), scores, name=f"attentionScores_{number}")
        projection = GraphNode.make(self.linear(f"{name}.in_proj"), start)
        return gmodule(start, projection, query, scores, softmax)

    def convlm(self) -> Object:
        start = GraphNode.make(None)
        encoded = GraphNode.make(None, start)
        embedded = GraphNode.make(self.embedding("decoder"), start)
        state = GraphNode.make(self.linear("decoder.in_proj"), embedded)
        nodes = [start, embedded, state, encoded]
        for number in range(1, len(self.model.decoder.layers) + 1):
            name, entry = f"decoder.layers.{number - 1}", state
            residual = GraphNode.make(self.residual(f"{name}.residual_proj"), state)
            for dropout in self.drop():
                entry = GraphNode.make(dropout, state)
                nodes.append(entry)
            output = GraphNode.make(self.block(name), entry, name=f"convBlock_{number}")
            nodes += [residual, output]
            if f"{name}.attention.in_proj.v" in self.parameters:
                attention = GraphNode.make(self.attention(f"{name}.attention", number), embedded, output, encoded)
                outward = GraphNode.make(self.linear(f"{name}.attention.out_proj"), attention)
                output = GraphNode.make(self.total(), outward, output)
                nodes += [attention, outward, output]
            state = GraphNode.make(self.total(), residual, output)
            nodes.append(state)
        return gmodule(*nodes, GraphNode.make(None, state))

    def outmodule(self) -> Object:
        first = [module("View"), self.layer("decoder.out_embed_proj"), *self.drop()]
        if not self.model.config.lookup_output:
            return module("Sequential", *first, self.layer("decoder.output"))
        rows = self.tensor("decoder.output.weight")
        branches = module("Sequential", *first, module("AppendBias")), module("LookupTable", weight=rows)
        return module("Sequential", module("ParallelTable", *branches), module("MM"))

    def build(self) -> Object:
        """The FConvModel object."""
        start = GraphNode.make(None)
        encoder = GraphNode.make(self.encoder(), start, name="encoder")
        inner = GraphNode.make(None)
        convlm = GraphNode.make(self.convlm(), inner, name="convlm")
        output = GraphNode.make(self.outmodule(), convlm, name="outmodule")
        decoder = GraphNode.make(gmodule(inner, convlm, output), start, encoder, name="decoder")
        fields: dict[Any, Any] = {"module": gmodule(start, encoder, decoder), "decoderContext": 7.0}
        return Object("FConvModel", "1", Table(fields))


def dictionary(words: list[str], cutoff: int | None = None) -> Object:
    """A Dictionary of the specials and ``words``; ``cutoff``: how many symbols count, None for all."""
    symbols = ["<unk>", "<pad>", "</s>", *words]
    fields: dict[Any, Any] = {
        **{"unk_index": 1.0, "pad_index": 2.0, "eos_index": 3.0, "nspecial": 3.0},
        "cutoff": float(len(symbols) if cutoff is None else cutoff),
        "index_to_symbol": sequence(*symbols),
    }
    return Object("Dictionary", "1", Table(fields))
