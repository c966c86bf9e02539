"""README.md: its commands run as they stand, its figures are those of the results, its file tree is complete.

Every fenced block is marked ``sh`` (commands) or ``text`` (what one sees). All commands run, in order, in a fresh
clone, on stand-ins for Multi30k, own text and foreign checkpoints that lie where the README's words look for them, so
that nothing is fetched. What makes them affordable stands in tests/readme_python.py: options behind the README's own,
two processes for eight, and for what needs a second machine or the hub only composition. A program that is not named
here is not found, so a new command either runs or fails.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import GOLDEN
from readme_python import CLIENT

from convs2s.config import TrainConfig
from convs2s.data.builtin.splits import generate
from convs2s.options import options

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
SIZES = [
    *("model=small", "model.max_positions=64", "text.vocabulary_size=200"),
    *("training.max_epochs=1", "training.log_every=1", "training.threads=1", "training.samples=0"),
]
NEEDED = {"plot": "matplotlib", "export": "safetensors"}  # by the extra that a block installs
PROGRAMS = {  # on the path beside python and torchrun, and nothing else
    "pip": 'echo "pip $*" >> "$CALLS"',
    "pytest": 'echo "pytest $*" >> "$CALLS"',
    "srun": 'exec "$@"',
    "scontrol": "echo host1 && echo host2",
    "head": 'read -r line && echo "$line"',
}


def fenced(text: str) -> list[tuple[str, str]]:
    """(mark, content) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


# --- the commands -----------------------------------------------------------------------------------------------------


def clone(folder: Path) -> None:
    """What a git clone would hold now: the last commit, and changes of its files."""
    git = ["git", "-c", f"safe.directory={ROOT}", "-c", f"safe.directory={ROOT / '.git'}"]
    if not (ROOT / ".git").exists():  # an export
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("runs", "data", ".*", "__pycache__"))
        return
    subprocess.run([*git, "clone", "--quiet", str(ROOT), str(folder)], check=True)
    changed = subprocess.run([*git, "ls-files", "-mz"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, changed.split("\0")):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)


def stand_ins(folder: Path) -> None:
    """Small texts, and checkpoints of the authors' programs, under the names that the README's commands use."""
    splits = dict(zip(("train", "valid", "test"), generate((60, 10, 8), seed=1), strict=True))
    (folder / "corpus").mkdir()
    for split, pairs in splits.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / "corpus" / f"{split}.{language}").write_text(text, "utf-8")
    raw, pins = folder / "data" / "multi30k", folder / "configs" / "data" / "multi30k.yaml"
    raw.mkdir(parents=True)
    written = pins.read_text("utf-8")
    names = {"train": "train", "val": "valid"} | dict.fromkeys(
        re.findall(r"\b(test_\w+)\.\$\{data\.source\}", written), "test"
    )
    for name, split in names.items():
        for language in ("en", "de"):
            file = f"{name}.{language}.gz"
            content = gzip.compress((folder / "corpus" / f"{split}.{language}").read_bytes())
            (raw / file).write_bytes(content)
            written = re.sub(rf'("{file}": )\w+', rf"\g<1>{hashlib.sha256(content).hexdigest()}", written)
    pins.write_text(written, "utf-8")
    quickstart = folder / "configs" / "data" / "quickstart.yaml"
    text, count = re.subn(
        r"^generate: \[.*\]", "generate: [60, 10, 8]", quickstart.read_text("utf-8"), flags=re.MULTILINE
    )
    assert count == 1
    quickstart.write_text(text, "utf-8")
    for golden, name in {"toy_a": "model", "dict_toy.src": "dict.de", "dict_toy.tgt": "dict.en"}.items():
        (folder / f"{name}.th7").write_bytes(gzip.decompress((GOLDEN / f"{golden}.th7.gz").read_bytes()))
    for golden, name in {
        "std.pt": "model.pt",
        "std.dict.de.txt": "dict.de.txt",
        "std.dict.en.txt": "dict.en.txt",
    }.items():
        shutil.copy(GOLDEN / "fairseq_py" / golden, folder / name)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which the README's programs are at hand, and no others."""
    with tempfile.TemporaryDirectory() as short:  # a socket's path must be
        programs, at = tmp_path / "programs", f"{short}/python"
        programs.mkdir()
        (programs / "client.py").write_text(CLIENT.format(path=at), "utf-8")
        client = f'exec "{sys.executable}" -IS "{programs / "client.py"}" "${{0##*/}}" "$@"'
        for name, line in {**PROGRAMS, "python": client, "torchrun": client}.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
            (programs / name).chmod(0o755)
        environment = {
            **os.environ,
            "PATH": str(programs),
            "PYTHONPATH": str(tmp_path / "clone"),
            "OMP_NUM_THREADS": "1",
            "CALLS": str(tmp_path / "calls"),
            "SLURM_NNODES": "2",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "host[1-2]",
        }
        clone(tmp_path / "clone")
        (tmp_path / "sizes").write_text("\n".join(SIZES), "utf-8")
        words = [sys.executable, str(Path(__file__).with_name("readme_python.py")), at, str(tmp_path / "sizes")]
        server = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield environment
        server.kill()
        server.wait()


def unnumbered(line: str) -> str:
    return re.sub(r"\d[\d,.]*(e-?\d+)?", "#", line)


@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_every_command_runs(tmp_path: Path, shell: dict[str, str]) -> None:
    """Fault: a command of the README fails, names an option or a file that is not there, or shows something else."""
    folder = tmp_path / "clone"
    stand_ins(folder)
    bash, said, skipped = shutil.which("bash"), "", []
    assert bash is not None
    for mark, block in fenced((folder / "README.md").read_text("utf-8")):
        if mark == "text":
            continue
        extra = re.search(r"pip install -e '\.\[(\w+)\]'", block)
        if extra and extra[1] in NEEDED and importlib.util.find_spec(NEEDED[extra[1]]) is None:
            skipped.append(extra[1])
            continue
        done = subprocess.run(
            [bash, "-euo", "pipefail", "-c", block], cwd=folder, env=shell, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        said = said or done.stdout + done.stderr

    shown = next(block for mark, block in fenced(README) if mark == "text")
    # The paper's BLEU needs an extra that the first command does not install and the tests do.
    lines = {unnumbered(line).replace(" · paper's BLEU #", "") for line in said.splitlines()}
    assert {unnumbered(line) for line in shown.splitlines()} <= lines
    for name in ("runs/mine/evaluation/test.json", "comparison/results.html", "runs/ensemble/evaluation"):
        assert (folder / name).exists(), name
    assert len((folder / "test_2017.en").read_text("utf-8").splitlines()) == 8
    first, again = ((folder / "runs" / run / "metrics.jsonl").read_text("utf-8") for run in ("multi30k_de_en", "again"))
    assert first == again
    assert "plot" in skipped or (folder / "pictures" / "line1.png").exists()
    check_calls((tmp_path / "calls").read_text("utf-8").splitlines())


def check_calls(calls: list[str]) -> None:
    """What was not run: installations of extras that exist, tests of files that exist."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = re.findall(r"^(\w+) = \[", project.partition("[project.optional-dependencies]")[2], re.MULTILINE)
    for call in calls:
        program, *words = call.split(" ")
        if program == "pip":
            match = re.fullmatch(r"install -e \.(?:\[([\w,]+)\])?", " ".join(words))
            assert match, call
            assert set((match[1] or "test").split(",")) <= set(extras), call
        for word in words:
            assert not word.endswith(".py") or (ROOT / word).exists(), word


# --- what it says -----------------------------------------------------------------------------------------------------


def test_blocks_are_marked() -> None:
    """Fault: commands that no test runs: a block without a mark, or an indented one."""
    assert {mark for mark, _ in fenced(README)} == {"sh", "text"}
    outside = re.sub(r"^```\w*\n.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"^(?: {4}|\t)\S.*", outside, re.MULTILINE)
    assert "```" not in outside


def test_what_it_names_exists() -> None:
    """Fault: a link, a file, an option or an experiment that the README's text sends its readers to is gone."""
    text = re.sub(r"^```\w*\n.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    headings = {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in re.findall(r"^## (.*)", text, re.M)}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if not target.startswith("http"):
            assert target[1:] in headings if target.startswith("#") else (ROOT / target).exists(), target
    for path in re.findall(r"`((?:convs2s|tests|scripts|docs|configs)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path
    known = {name for name, *_ in options(TrainConfig)}
    for name in re.findall(r"`'?(\w+\.[\w.]+)=", text):
        assert name in known, name
    for name in re.findall(r"`(?:experiment=)?((?:wmt1|gigaword|figure2|table|multi30k_)\w*)`", text):
        assert (ROOT / "configs" / "experiment" / f"{name}.yaml").exists(), name


def test_the_tree_lists_every_file() -> None:
    """Fault: a file was added, moved or removed and the README's tree was not; a file without its comment."""
    (tree,) = (block for _, block in fenced(README) if block.startswith("convs2s/\n"))
    listed, folders = [], []
    for line in tree.splitlines():
        match = re.fullmatch(r"( *)(\S+?)(/?)(?: +(\S.*))?", line)
        assert match, line
        del folders[len(match[1]) // 2 :]
        if match[3]:
            folders.append(match[2])
        else:
            assert match[4], f"{line}: say in a few words what is in it"
            listed.append("/".join([*folders, match[2]]))
    assert len(set(listed)) == len(listed)
    files = {
        path.relative_to(ROOT).as_posix()
        for top in ("convs2s", "scripts")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".css", ".js", ".yaml") and path.name != "__init__.py"
    }
    assert set(listed) == files


def rows(text: str, heading: str) -> list[dict[str, str]]:
    """The rows, by column, of the tables whose head begins with these words."""
    found: list[dict[str, str]] = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *lines = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines())
        if " | ".join(head).startswith(heading):
            found += [dict(zip(head, line, strict=True)) for line in lines]
    return found


def test_the_results_are_those_of_results() -> None:
    """Fault: a figure typed by hand, or older than the runs (RESULTS.md itself is compared with them elsewhere)."""
    results = (ROOT / "RESULTS.md").read_text("utf-8")
    parts: dict[str, str] = {}  # a title stands over a table and over a curve
    for title, part in re.findall(r"^### (.*?): .*\n((?:(?!^##).*\n)*)", results, re.MULTILINE):
        parts[title] = parts.get(title, "") + part
    shown = rows(README, "of | system")
    assert len(shown) >= 7
    for row in shown:
        there = [
            {name: line.get(name, "") for name in row if name != "of"}
            for line in rows(parts[row["of"]], "system | metric")
            if (line["system"], line["metric"]) == (row["system"], row["metric"])
        ]
        assert {name: cell for name, cell in row.items() if name != "of"} in there, row["of"]
    curves = dict(
        re.findall(r"^### (.*?): .*\n\nValidation.*relative difference of the means: ([\d.]+) %", results, re.M)
    )
    assert f"differ by {curves['Original program']} % at\nmost" in README


def test_the_speeds_are_those_of_results() -> None:
    """Fault: a speed typed by hand, or older than its measurement."""
    results = (ROOT / "RESULTS.md").read_text("utf-8")
    for heading in ("system | batch", "system | model"):
        shown = rows(README, heading)
        assert any(row["system"].startswith("ours") for row in shown)
        measured = [{name: line.get(name, "") for name in shown[0]} for line in rows(results, heading)]
        assert all(row in measured for row in shown)


def test_the_differences_are_those_of_the_tests() -> None:
    """Fault: a bound that the tests do not keep, a difference above its bound, a test that is gone."""
    shown = rows(README, "what | largest difference")
    assert len(shown) >= 8
    for row in shown:
        file, _, function = row["test"].strip("`").partition("::")
        source = (ROOT / file).read_text("utf-8")
        assert f"\ndef {function}(" in source, row["test"]
        assert float(row["largest difference"]) <= float(row["bound"]), row["what"]
        assert f"atol={float(row['bound']):g}".replace("e-0", "e-") in source.replace('"atol": ', "atol="), row["what"]
