"""A model leaves as safetensors and comes back bit for bit; its card says what its run's records say, and no more."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from helpers import small_config
from runs import tiny_config, trained

from convs2s.config import (
    ConvertConfig,
    DataConfig,
    Destination,
    Origin,
    SearchConfig,
    TextConfig,
    TrainConfig,
    to_plain,
)
from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_split
from convs2s.model import ConvS2S
from convs2s.text.tokenizer import Tokenizers, train_tokenizers
from convs2s.training.checkpoint import build_model, build_tokenizers, load, save

pytest.importorskip("safetensors")
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from convert import main as convert

from convs2s.interop.model_card import origin_lines
from convs2s.interop.safetensors_io import read_folder, write_folder

LINES = ["ein hund läuft im schnee", "das haus ist rot", "ein rotes haus im schnee"] * 3


def checkpoint(folder: Path, tokenizers: Tokenizers, **options: Any) -> Path:
    """A trained model's checkpoint, as training saves it, in a run's folder."""
    config = small_config([(6, 3), (4, 2)], [(6, 3), (6, 2)], attention=[2], **options)
    sizes = len(tokenizers.source.symbols), len(tokenizers.target.symbols)
    model = ConvS2S(config, *sizes)
    train = TrainConfig(experiment="tiny", data=DataConfig(name="corpus", source="de", target="en"), model=config)
    path = folder / "checkpoints" / "best.pt"
    path.parent.mkdir(parents=True)
    made = {
        "config": to_plain(train),
        "model": model.state_dict(),
        "source_vocabulary": sizes[0],
        "target_vocabulary": sizes[1],
        "tokenizers": tokenizers.state(),
        "progress": {"epoch": 3, "update": 1234},
        "optimizer": {"state": {0: torch.ones(3)}},
    }
    save(path, made)
    return path


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("case", ["words", "sentencepiece", "shared output", "bf16"])
def test_round_trip_is_bit_equal(case: str, tmp_path: Path) -> None:
    """Fault: a weight is rounded, transposed, lost or untied, or the tokeniser comes back as another."""
    tokenizers = tiny.tokenizers("@@")
    if case == "sentencepiece":
        text = TextConfig(vocabulary_size=40, joint=True)
        tokenizers = train_tokenizers(text, LINES, LINES, seed=1, log=lambda message: None)
    shared = {"share_output": True, "output_embedding": 6} if case == "shared output" else {}
    path = checkpoint(tmp_path / "run", tokenizers, **shared)
    if case == "bf16":
        made = load(path)
        made["model"] = {name: tensor.bfloat16() for name, tensor in made["model"].items()}
        save(path, made)
    folder, back = tmp_path / "folder", tmp_path / "back"
    convert(ConvertConfig(model_=str(path), to=Destination.safetensors, output=str(folder)))
    convert(ConvertConfig(from_=Origin.safetensors, model_=str(folder / "model.safetensors"), output=str(back)))
    before, after = load(path), load(back / "checkpoints" / "best.pt")
    same(before["model"], after["model"])
    for name in ("config", "source_vocabulary", "target_vocabulary", "progress"):
        assert before[name] == after[name]
    assert "optimizer" not in after
    assert after["origin"]["files"] == {"model.safetensors": sha256(folder / "model.safetensors")}
    for one, other in zip(build_tokenizers(before), build_tokenizers(after), strict=True):
        assert one.symbols == other.symbols
        assert one.encode(LINES) == other.encode(LINES)
    model = build_model(after)
    if shared:
        assert model.decoder.output.weight is model.decoder.embed_tokens.weight
        names = set(read_names(folder))
        assert "decoder.output.weight" not in names  # written once
    convert(ConvertConfig(from_=Origin.safetensors, model_=str(folder), to=Destination.safetensors, output=str(back)))
    assert (folder / "model.safetensors").read_bytes() == (back / "model.safetensors").read_bytes()


def read_names(folder: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return list(file.keys())


def test_other_programs_read_the_folder(tmp_path: Path) -> None:
    """Fault: names, JSON or SentencePiece file are of a form that only this program reads."""
    import sentencepiece
    from safetensors.numpy import load_file

    text = TextConfig(vocabulary_size=40, joint=True)
    tokenizers = train_tokenizers(text, LINES, LINES, seed=1, log=lambda message: None)
    path = checkpoint(tmp_path / "run", tokenizers)
    write_folder(tmp_path / "folder", load(path))
    weights = load_file(tmp_path / "folder" / "model.safetensors")
    assert weights["encoder.layers.0.conv.v"].shape == (12, 18)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "folder" / "source.model"))
    assert processor.encode(LINES[0]) == tokenizers.source.encode(LINES[:1])[0]
    assert json.loads((tmp_path / "folder" / "config.json").read_text())["model_type"] == "convs2s"


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    """Fault: a folder that lacks a file, or mixes two models, gives a model that is silently wrong."""
    path = checkpoint(tmp_path / "run", tiny.tokenizers())
    folder = tmp_path / "folder"

    def broken(name: str, content: bytes | None) -> None:
        write_folder(folder, load(path))
        before = (folder / name).read_bytes()
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
        with pytest.raises(UserError) as caught:
            read_folder(folder)
        assert "\n" not in str(caught.value)
        (folder / name).write_bytes(before)

    for name in ("config.json", "tokenizers.json", "model.safetensors"):
        broken(name, None)
        broken(name, b"")
        broken(name, b"{")
        broken(name, b"[]")
    whole = (folder / "model.safetensors").read_bytes()
    broken("model.safetensors", whole[:-5])
    broken("model.safetensors", b"\xff" * 8 + whole[8:])
    config = json.loads((folder / "config.json").read_text())
    broken("config.json", json.dumps(config | {"source_vocabulary": 10}).encode())
    broken("config.json", json.dumps(config | {"config": {"model": {"embedding": 7}}}).encode())
    broken("config.json", json.dumps({"model_type": "convs2s", "format": 1}).encode())
    words = {"kind": "whitespace", "words": ["a"], "joiner": "", "join_input": False}
    broken("tokenizers.json", json.dumps({"source": words, "target": None}).encode())
    outside = {"kind": "sentencepiece", "model": {"file": "../../etc/passwd"}}
    broken("tokenizers.json", json.dumps({"source": outside, "target": None}).encode())


def test_the_card_holds_the_records_and_nothing_else(tmp_path: Path) -> None:
    """Fault: scores of other weights, invented figures, or gaps that are not called gaps."""
    run = tmp_path / "run"
    path = checkpoint(run, tiny.tokenizers("@@"))
    folder = tmp_path / "folder"
    convert(ConvertConfig(model_=str(path), to=Destination.huggingface, output=str(folder)))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: convs2s\nlanguage:\n")
    assert "## Scores\n\nnot run\n" in card
    assert "files and counts: not recorded" in card
    assert "training text not recorded" in card
    assert "- command: `not recorded`" in card
    assert "after update 1234" in card

    split = {
        "pairs_read": 29000,
        "pairs": 28000,
        "dropped": {"long": 1000, "empty": 0},
        "tokens": {"source": 1, "target": 2},
        "longest": {"source": 52, "target": 46},
    }
    manifest = {
        "splits": {"train": split},
        "inputs": {"train": [{"file": "train.de", "sha256": "a" * 64}], "weights": [1.0]},
    }
    (run / "environment.json").write_text(json.dumps({"command": "train.py x=1", "torch": "2.13", "data": manifest}))
    (run / "evaluation").mkdir()
    score = {"score": 33.333, "signature": "nrefs:1|case:mixed"}
    search = {"beam": 5, "workers": 4, "unknown": {"replace": True}}  # as many processes give the same
    mine = {"split": "test", "bleu": score, "sentences": 1000, "search": search, "checkpoint": {"sha256": sha256(path)}}
    others = mine | {"bleu": {"score": 99.9, "signature": "s"}, "checkpoint": {"sha256": "b" * 64}}
    (run / "evaluation" / "test.json").write_text(json.dumps(mine))
    (run / "evaluation" / "test.last.json").write_text(json.dumps(others))
    (run / "evaluation" / "torn.json").write_text("{")
    convert(ConvertConfig(model_=str(path), to=Destination.huggingface, output=str(folder)))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert r"| test, 1,000 sentences | BLEU 33.33 | `nrefs:1\|case:mixed` | beam 5, unknown.replace True |" in card
    assert "99.9" not in card
    assert "28,000 of 29,000 pairs (dropped: 1,000 long)" in card
    assert f"train.de, SHA-256 `{'a' * 64}`" in card
    assert "- command: `train.py x=1`" in card
    assert "52 and 46 pieces" in card


def test_the_card_of_a_run(tmp_path: Path) -> None:
    """Fault: what training and evaluation write down is not what the card looks for, and reads "not recorded"."""
    config = tiny_config(tmp_path, model__dropout_hidden=0.3)
    saved = trained(config)
    best = tmp_path / "run" / "checkpoints" / "best.pt"
    report = evaluate_split(best, "test", SearchConfig(beam=2, max_length=9, unkpen=0.5))
    convert(ConvertConfig(model_=str(best), to=Destination.huggingface, output=str(tmp_path / "folder")))
    card = (tmp_path / "folder" / "README.md").read_text(encoding="utf-8")
    gaps = [line.partition(":")[0] for line in card.splitlines() if "not recorded" in line and line.startswith("-")]
    assert gaps == []
    assert f"- {sum(weight.numel() for weight in saved['model'].values()):,} parameters" in card
    for split, pairs in (("train", 50), ("valid", 12)):
        assert f"- {split}: {pairs} of {pairs} pairs (dropped: none)" in card
        for language in ("a", "b"):
            digest = sha256(tmp_path / "raw" / f"{split}.{language}")
            assert f"- {split} file {split}.{language}, SHA-256 `{digest}`" in card
    assert f"after update {load(best)['progress']['update']}" in card
    assert "dropout source 0.2, target 0.2, hidden 0.3, output 0.2" in card
    assert "processes: 1;" in card
    bleu = report["bleu"]
    settings = "beam 2, lenpen 1.0, unkpen 0.5, max_length 9"
    signature = bleu["signature"].replace("|", r"\|")
    assert f"| test, 5 sentences | BLEU {bleu['score']:.2f} | `{signature}` | {settings} |" in card
    assert "- command: `" in card
    assert card.startswith("---\nlibrary_name: convs2s\ntags:\n- convs2s\n")  # "a" and "b" are no languages


def test_nothing_to_convert_is_said(tmp_path: Path) -> None:
    """Fault: from=checkpoint to=checkpoint writes a copy, or fails with a traceback."""
    path = checkpoint(tmp_path / "run", tiny.tokenizers())
    with pytest.raises(UserError, match="nothing to convert"):
        convert(ConvertConfig(model_=str(path), output=str(tmp_path / "x")))


def test_the_card_tells_every_conversion() -> None:
    """Fault: a model that went through safetensors forgets which program it came from."""
    before = {"format": "fairseq_lua", "files": {"model.th7": "12"}}
    lines = list(origin_lines({"format": "safetensors", "files": {"model.safetensors": "34"}, "before": before}))
    assert lines == [
        "- converted from safetensors: model.safetensors (SHA-256 `34`)",
        "- converted from fairseq_lua: model.th7 (SHA-256 `12`)",
    ]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Fault: the message names a file beside the one that was asked for."""
    with pytest.raises(UserError, match=r"nothing: no such file or folder"):
        read_folder(tmp_path / "nothing")
