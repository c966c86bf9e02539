"""Networks as Torch7 files hold them: modules (nn) made of modules, and graphs of them (nngraph's gModule).

A file may hold any cycle and any amount of sharing, so every walk visits a module once, and networks are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from convs2s.interop.torch7 import Object, Table

GRAPH, LOOKUP, WEIGHT_NORM, DROPOUT = "nn.gModule", "nn.LookupTable", "nn.WeightNorm", "nn.Dropout"

MAX_MODULES = 5_000  # in a network, and nodes in a graph; a model of 20 + 20 layers has about 1,000
MAX_INPUTS = 16  # of a node


class UnlikelyError(Exception):
    """The network is larger than any that this program reads."""


@dataclass(eq=False)
class Node:
    """A node of a graph: what it computes, the name its authors gave it, where its inputs and its output go."""

    module: Object | None
    name: str = ""
    inputs: list[Node] = field(default_factory=list)
    users: list[Node] = field(default_factory=list)


def graph(module: Object) -> list[Node]:
    """The nodes of a gModule in order of execution; none for other modules."""
    nodes: dict[int, Node] = {}
    inputs: dict[int, Table] = {}
    listed = module.get("forwardnodes")
    for entry in listed.sequence() if isinstance(listed, Table) else ():
        data = entry.get("data") if isinstance(entry, Object) else None
        if isinstance(data, Table):
            inner, annotations, sources = data.get("module"), data.get("annotations"), data.get("mapindex")
            name = annotations.get("name") if isinstance(annotations, Table) else None
            nodes[id(data)] = Node(inner if isinstance(inner, Object) else None, name if isinstance(name, str) else "")
            inputs[id(data)] = sources if isinstance(sources, Table) else Table()
        if len(nodes) > MAX_MODULES:
            raise UnlikelyError(f"a graph has more than {MAX_MODULES} nodes")
    for key, node in nodes.items():
        for number, data in enumerate(inputs[key].sequence()):
            if number == MAX_INPUTS:
                raise UnlikelyError(f"a node of a graph has more than {MAX_INPUTS} inputs")
            if id(data) in nodes:
                node.inputs.append(nodes[id(data)])
                nodes[id(data)].users.append(node)
    return list(nodes.values())


def children(module: Object) -> list[Object]:
    """The modules that a module is made of, in order of execution."""
    if module.kind == GRAPH:
        return [node.module for node in graph(module) if node.module is not None]
    modules = module.get("modules")
    return [m for m in modules.sequence() if isinstance(m, Object)] if isinstance(modules, Table) else []


def walk(module: Object | None) -> Iterator[Object]:
    """A module and all that it is made of, each once, in order of execution."""
    stack, seen = [] if module is None else [module], set()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if len(seen) > MAX_MODULES or len(stack) > MAX_MODULES:
            raise UnlikelyError(f"the network has more than {MAX_MODULES} modules")
        yield current
        stack.extend(reversed(children(current)))


def find(module: Object | None, *kinds: str) -> list[Object]:
    """All modules of the given classes in a module."""
    return [m for m in walk(module) if m.kind in kinds]


def weights(module: Object | None) -> list[Object]:
    """The weight-normalised layers in a module."""
    return find(module, WEIGHT_NORM)


def is_layer(node: Node) -> bool:
    """Whether a node is one weight-normalised layer (nn.Bottle around it), and neither a graph nor a named part."""
    return node.module is not None and node.module.kind != GRAPH and not node.name and len(weights(node.module)) == 1


def drop_probability(modules: list[Object]) -> float:
    """That of the first dropout among some modules, 0 where there is none."""
    rates = (m.get("p") for m in modules if m.kind == DROPOUT)
    return next((p for p in rates if isinstance(p, float)), 0.0)
