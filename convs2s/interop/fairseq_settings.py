"""The settings that a fairseq checkpoint carries, as one flat dictionary of plain values.

Before 2020 they are an ``argparse.Namespace``, after it a tree of groups, of plain dicts or of OmegaConf's objects.
Architectures are Python expressions there, like ``[(512, 3)] * 9 + [(1024, 3, 2)]``: parsed here, not evaluated.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from convs2s.config import LayerConfig
from convs2s.errors import UserError
from convs2s.interop.plain_pickle import Opaque
from convs2s.interop.torch_file import TorchFile

GROUPS = ("task", "optimization", "optimizer", "lr_scheduler", "model")
MOST_LAYERS = 1000


class Settings:
    """What a file says about its model and training."""

    def __init__(self, path: Path, values: dict[str, Any], versioned: bool, late: bool) -> None:
        """versioned: the decoder has a version, so the file is not of the first release; late: from 2020 on."""
        self.path = path
        self.values = values
        # Masks came with the options for the padding side, in mid-2018.
        self.masks_padding = late or "left_pad_source" in values
        self.has_start_symbol = late or "truncate_source" in values
        self.pads_target_left = self.flag("left_pad_target") if "left_pad_target" in values else not versioned

    def text(self, name: str, default: str) -> str:
        value = self.values.get(name)
        return value if isinstance(value, str) else default

    def flag(self, name: str) -> bool:
        """A truth value, which some versions keep as text."""
        value = self.values.get(name, False)
        return value in ("True", "true", "1") if isinstance(value, str) else bool(value)

    def number(self, name: str, default: float) -> float:
        """A number, which some versions keep as text, or as a list by epoch whose first counts."""
        value = self.values.get(name, default)
        if isinstance(value, list) and value:
            value = value[0]
        try:
            return float(value)
        except (TypeError, ValueError):
            return default

    def positions(self, side: str) -> int:
        """Rows a position table would have, where there is none."""
        return int(self.number(f"max_{side}_positions", 1024))

    def residuals(self, side: str, layers: list[LayerConfig]) -> list[int] | None:
        """How many layers back each layer's residual begins; None: one everywhere.

        Raises UserError where the settings and the weights, ``layers``, disagree.
        """
        expression = self.values.get(f"{side}_layers")
        if expression is None:
            return None
        option = f"{self.path}: {side}_layers={str(expression)[:80]}"
        try:
            specification = literal(expression) if isinstance(expression, str) else expression
            rows = [tuple(map(int, row)) for row in specification]
        except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
            raise UserError(f"{option}: not a list of (channels, kernel) or (channels, kernel, residual)") from error
        if [row[:2] for row in rows] != [(layer.channels, layer.kernel) for layer in layers]:
            raise UserError(f"{option}: the weights are of other layers")
        distances = [row[2] if len(row) > 2 else 1 for row in rows]
        return None if all(distance == 1 for distance in distances) else distances


def read_settings(file: TorchFile) -> Settings:
    """The settings of a checkpoint, whatever their form."""
    content = mapping(file.content)
    values = mapping(content.get("args"))
    late = not values and bool(mapping(content.get("cfg")))
    if not values:
        groups = mapping(content.get("cfg"))
        for group in GROUPS:
            values = {**values, **mapping(groups.get(group))}
    versioned = "decoder.version" in stored_weights(file)
    return Settings(file.path, {name: unwrap(value) for name, value in values.items()}, versioned, late)


def stored_weights(file: TorchFile) -> dict[str, Any]:
    """The model's part of a checkpoint by name, without the "module." that a model wrapped for several GPUs adds."""
    stored = mapping(mapping(file.content).get("model"))
    wrapped = all(str(name).startswith("module.") for name in stored)
    return {str(name).removeprefix("module." if wrapped else ""): tensor for name, tensor in stored.items()}


def mapping(value: Any) -> dict[str, Any]:
    """A dict, or the content of OmegaConf's object for one; {} for anything else."""
    if isinstance(value, Opaque) and isinstance(value.state, dict):
        value = value.state.get("_content")
    return value if isinstance(value, dict) else {}


def unwrap(value: Any) -> Any:
    """A plain value, or that of OmegaConf's node for one; a list of such."""
    if isinstance(value, Opaque) and isinstance(value.state, dict):
        value = value.state.get("_content", value.state.get("_val"))
    if isinstance(value, list):
        return [
            item.state.get("_val") if isinstance(item, Opaque) and isinstance(item.state, dict) else item
            for item in value
        ]
    return value


def literal(expression: str) -> Any:
    """The value of an expression of lists, tuples, whole numbers, + and *. ValueError or SyntaxError for others."""
    if len(expression) > 10_000:
        raise ValueError("too long")
    return value_of(ast.parse(expression.strip(), mode="eval").body)


def value_of(node: ast.expr) -> Any:
    """The value of a node of the parsed expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [value_of(item) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = value_of(node.left), value_of(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Add) and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        times, sequence = (left, right) if isinstance(left, int) else (right, left)
        if isinstance(node.op, ast.Mult) and isinstance(times, int) and isinstance(sequence, (list, tuple)):
            if times * len(sequence) > MOST_LAYERS:
                raise ValueError("too many layers")
            return sequence * times
    raise ValueError("not a list of layers")
