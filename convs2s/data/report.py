"""What preparation found, as one table."""

from __future__ import annotations

from typing import Any

_MANY_UNKNOWN = 0.1


def table(manifest: dict[str, Any]) -> list[str]:
    """Lines of a table of all prepared splits: pairs read, dropped by rule, kept; pieces a word, unknowns, longest."""
    splits: dict[str, dict[str, Any]] = manifest["splits"]
    source, target = manifest["languages"]
    rules = [rule for rule in splits["train"]["dropped"] if any(s["dropped"].get(rule) for s in splits.values())]
    rows = [("", [*splits])]
    rows.append(("pairs read", [f"{split['pairs_read']:,}" for split in splits.values()]))
    for rule in rules:
        label = rule if rule in ("held out", "not drawn") else f"dropped: {rule}"
        rows.append((label, [f"{split['dropped'].get(rule, 0):,}" for split in splits.values()]))
    rows.append(("pairs written", [f"{split['pairs']:,}" for split in splits.values()]))
    for label, cell in (("tokens", _tokens), ("pieces a word", _pieces), ("unknown", _unknown), ("longest", _longest)):
        name = f"{label}, {source} / {target}"
        rows.append(
            (name, [" / ".join(cell(split, side) for side in ("source", "target")) for split in splits.values()])
        )
    left = max(len(label) for label, _ in rows)
    widths = [max(len(cells[i]) for _, cells in rows) for i in range(len(splits))]
    return [
        "  ".join([label.ljust(left), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))])
        for label, cells in rows
    ]


def warnings(manifest: dict[str, Any]) -> list[str]:
    """What a reader of the table should not miss: text that does not fit the vocabulary."""
    found = []
    for name, split in manifest["splits"].items():
        for side in ("source", "target"):
            share = split["unknown"][side] / max(1, split["tokens"][side])
            if share > _MANY_UNKNOWN:
                found.append(
                    f"warning: {100 * share:.0f} % of the {name} {side} pieces are unknown;"
                    " is it the same language, and segmented as text.kind expects?"
                )
    return found


def _tokens(split: dict[str, Any], side: str) -> str:
    return f"{split['tokens'][side]:,}"


def _pieces(split: dict[str, Any], side: str) -> str:
    return f"{(split['tokens'][side] - split['pairs']) / max(1, split['words'][side]):.2f}"  # </s> is no piece


def _unknown(split: dict[str, Any], side: str) -> str:
    return f"{100 * split['unknown'][side] / max(1, split['tokens'][side]):.2f} %"


def _longest(split: dict[str, Any], side: str) -> str:
    return f"{split['longest'][side]:,}"
