"""Convert models: python scripts/convert.py from=fairseq_lua model=model.th7 source_dict=dict.de.th7 \\
    target_dict=dict.en.th7 output=runs/theirs

A model of the authors' releases becomes a checkpoint like any other: runs/theirs/checkpoints/best.pt goes through
evaluate.py, translate.py and training.init_from=. Any model leaves with to=safetensors, to=huggingface or to=onnx.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convs2s.cli import run
from convs2s.config import ConvertConfig, Destination, Origin, refuse_given
from convs2s.errors import UserError
from convs2s.interop import checkpoint, fairseq_lua, fairseq_py, model_card, onnx_export, safetensors_io
from convs2s.training.checkpoint import load

BELONG = {  # options to the formats that they are read with
    ("source_dict", "target_dict", "joiner"): (Origin.fairseq_lua, Origin.fairseq_py),
    ("codes",): (Origin.fairseq_py,),
}


def main(config: ConvertConfig) -> None:
    if config.to == Destination.checkpoint and config.from_ == Origin.checkpoint:
        raise UserError("from=checkpoint to=checkpoint: nothing to convert; give from= or to=")
    for names, origins in BELONG.items():
        if config.from_ not in origins:
            refuse_given(config, names, f"is for from={' and '.join(origin.value for origin in origins)}")
    if config.codes is not None:
        refuse_given(config, ["joiner"], "is for text that is segmented already, not for codes=")
    model = read(config)
    if config.to == Destination.checkpoint:
        print(checkpoint.write(config.output, model))
    elif config.to == Destination.onnx:
        print(onnx_export.write_onnx(config.output, model))
    else:
        print(safetensors_io.write_folder(config.output, model))
    if config.to == Destination.huggingface:
        run_of = Path(config.model_) if config.from_ == Origin.checkpoint else None
        print(model_card.write_card(config.output, model, run_of))


def read(config: ConvertConfig) -> dict[str, Any]:
    """What model= holds, as a checkpoint of ours."""
    if config.from_ == Origin.fairseq_lua:
        return fairseq_lua.read(config)
    if config.from_ == Origin.fairseq_py:
        return fairseq_py.read(config)
    if config.from_ == Origin.safetensors:
        return safetensors_io.read_folder(config.model_)
    return load(config.model_)


if __name__ == "__main__":
    run(main, ConvertConfig, "convert")
