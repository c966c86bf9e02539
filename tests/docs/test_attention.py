"""docs/attention.md: its program runs, its links and files exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "attention.md"


def test_the_walk_through_runs() -> None:
    """Fault: a shape, an equation or a claim in the document no longer holds for the code."""
    text = DOCUMENT.read_text("utf-8")
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.DOTALL))
    assert len(blocks) >= 6
    program: dict[str, object] = {}
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(DOCUMENT), "exec"), program)


def test_what_it_names_exists() -> None:
    """Fault: a file, picture, experiment or section that the document sends its readers to is gone."""
    text = DOCUMENT.read_text("utf-8")
    headings = {
        re.sub(r"[^\w -]", "", line[3:]).strip().lower().replace(" ", "-") for line in re.findall(r"^## .*", text, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert target[1:] in headings if target.startswith("#") else (DOCUMENT.parent / target).exists(), target
    for path in re.findall(r"`((?:convs2s|tests|scripts)/[\w/]+\.py)`", text):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"experiment=(\w+)", text):
        assert (ROOT / "configs" / "experiment" / f"{name}.yaml").exists(), name
