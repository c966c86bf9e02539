"""A converted model of each format goes through all that takes a checkpoint: evaluate, translate, draw, fine-tune."""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import GOLDEN
from runs import tiny_config, trained

from convs2s.config import (
    ConvertConfig,
    Destination,
    Origin,
    PictureFormat,
    PlotAttentionConfig,
    SearchConfig,
    TranslateConfig,
)
from convs2s.evaluation.evaluate import evaluate_split
from convs2s.training import checkpoint

SEARCH = SearchConfig(beam=2, max_length=8)


def script(name: str) -> Callable[[Any], None]:
    """The main function of scripts/NAME.py."""
    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"script_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[Any], None] = module.main
    return main


def converted(name: str, folder: Path) -> Path:
    """The checkpoint that convert.py makes of a golden file, or of a golden file that left as safetensors before."""
    output = folder / name
    if name == "fairseq_lua":
        for file in ("toy_a", "dict_toy.src", "dict_toy.tgt"):
            (folder / f"{file}.th7").write_bytes(gzip.decompress((GOLDEN / f"{file}.th7.gz").read_bytes()))
        files = [folder / f"{file}.th7" for file in ("toy_a", "dict_toy.src", "dict_toy.tgt")]
    else:
        files = [GOLDEN / "fairseq_py" / f"std{ending}" for ending in (".pt", ".dict.de.txt", ".dict.en.txt")]
    origin = Origin.fairseq_lua if name == "fairseq_lua" else Origin.fairseq_py
    model, source, target = map(str, files)
    convert = script("convert")
    if name == "safetensors":
        pytest.importorskip("safetensors")
        exported = {"to": Destination.safetensors, "output": str(folder / "exported")}
        convert(ConvertConfig(origin, model_=model, source_dict=source, target_dict=target, **exported))
        convert(ConvertConfig(Origin.safetensors, model_=str(folder / "exported"), output=str(output)))
    else:
        convert(ConvertConfig(origin, model_=model, source_dict=source, target_dict=target, output=str(output)))
    return output / "checkpoints" / "best.pt"


@pytest.mark.parametrize("name", ["fairseq_lua", "fairseq_py", "safetensors"])
def test_a_converted_model_goes_through_all_programs(name: str, tmp_path: Path) -> None:
    """Fault: a converted checkpoint lacks what one of the programs reads of a training's."""
    pytest.importorskip("matplotlib")
    path = converted(name, tmp_path)
    saved = checkpoint.load(path)
    words = (
        checkpoint.build_tokenizers(saved).source.symbols[5:11],
        checkpoint.build_tokenizers(saved).target.symbols[5:11],
    )
    for split in ("train", "valid", "test"):
        for language, side in zip("ab", words, strict=True):
            (tmp_path / "raw").mkdir(exist_ok=True)
            (tmp_path / "raw" / f"{split}.{language}").write_text(f"{' '.join(side)}\n\n{side[1]} {side[0]}\n", "utf-8")
    test = tmp_path / "raw" / "test.a"

    report = evaluate_split(path, "test", SEARCH, files=(str(test), str(tmp_path / "raw" / "test.b")))
    lines = Path(report["translations"]).read_text("utf-8").split("\n")
    assert [bool(line) for line in lines] == [True, False, True, False]

    options: dict[str, Any] = {"device": "cpu", "search": SEARCH}
    script("translate")(TranslateConfig(str(path), str(test), str(tmp_path / "out"), **options))
    assert (tmp_path / "out").read_text("utf-8").split("\n") == lines

    pictures = {"input": str(test), "output": str(tmp_path / "pictures"), "formats": [PictureFormat.svg]}
    script("plot_attention")(PlotAttentionConfig(str(path), **pictures, **options))
    assert sorted(file.name for file in (tmp_path / "pictures").iterdir()) == ["line1.svg", "line3.svg"]

    limits = {"training__max_updates": 1, "training__max_epochs": 1}
    tuned = trained(tiny_config(tmp_path, "tuned", training__init_from=str(path), **limits))
    assert tuned["config"]["model"] == saved["config"]["model"] | {"dropout": 0.2} | {
        key: None for key in saved["config"]["model"] if key.startswith("dropout_")
    }
    assert tuned["tokenizers"].keys() == saved["tokenizers"].keys()
    changed = [key for key, weight in tuned["model"].items() if not torch.equal(weight, saved["model"][key])]
    assert len(changed) > len(saved["model"]) / 2
    assert max(float((tuned["model"][key] - saved["model"][key]).abs().max()) for key in changed) < 0.2
