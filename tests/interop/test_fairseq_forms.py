"""Checkpoints of fconv in the forms of other versions, against an independent implementation; refusals."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_fconv
import torch
from fairseq_files import OURS, THEIRS, convert
from omegaconf import OmegaConf
from reference_fconv import Layers, State, random_state

from convs2s.config import (
    ConvertConfig,
    ModelConfig,
    Origin,
    SearchConfig,
    SourcePadding,
    TargetPadding,
)
from convs2s.data.batching import collate
from convs2s.errors import UserError
from convs2s.interop import fairseq_py
from convs2s.model import ConvS2S
from convs2s.search.beam import beam_search
from convs2s.training.checkpoint import build_model, build_tokenizers
from convs2s.training.validation import padded_left


def text(layers: Layers) -> str:
    """An architecture as it stands in the settings."""
    return " + ".join(f"[{layer}] * 1" for layer in layers)


def save(folder: Path, state: State, settings: Any, *, stacked: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in (("encoder", "de"), ("decoder", "en")):
        words = len(state[f"{side}.embed_tokens.weight"]) - 4
        lines = [f"word{i} {100 - i}\n" for i in range(words)]
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    saved = reference_fconv.checkpoint(state, settings)
    torch.save(saved, folder / "model.pt", _use_new_zipfile_serialization=not stacked)
    return folder


def convert_saved(folder: Path) -> dict[str, Any]:
    return convert(folder / "model.pt", folder / "dict.de.txt", folder / "dict.en.txt", folder / "ours")


def settings(encoder: Layers, decoder: Layers, **options: Any) -> argparse.Namespace:
    return argparse.Namespace(encoder_layers=text(encoder), decoder_layers=text(decoder), dropout=0.2, **options)


def check_logits(model: ConvS2S, state: State, encoder: Layers, decoder: Layers, masked: bool, left: bool) -> None:
    """Against the reference, for a batch with padding on both sides of the model."""
    source = torch.tensor([[1, 1, 5, 0, 4, 2], [6, 7, 3, 8, 5, 2]])
    target_input = torch.tensor([[1, 1, 2, 4, 5], [2, 6, 7, 3, 8]] if left else [[2, 4, 5, 1, 1], [2, 6, 7, 3, 8]])
    wanted = reference_fconv.logits(reference_fconv.double(state), encoder, decoder, source, target_input, masked)
    found = model.double().logits(OURS[source], OURS[target_input])
    order = THEIRS[: found.shape[-1]]
    real = target_input != 1
    torch.testing.assert_close(found[real], wanted[..., order][real], rtol=1e-6, atol=1e-6)


CASES: dict[str, tuple[Layers, Layers, list[bool], dict[str, Any]]] = {
    "even kernels": ([(6, 2), (6, 4)], [(6, 2), (6, 4)], [True, True], {}),
    "triples": ([(6, 3), (6, 3, 2), (4, 3, 3)], [(6, 3), (6, 2, 0), (4, 3, 2)], [True, True, True], {}),
    "some attention": ([(6, 3)], [(6, 3), (4, 3), (6, 3)], [False, True, False], {}),
    "shared embeddings": ([(6, 3)], [(6, 3)], [True], {"shared": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_other_forms(case: str, tmp_path: Path) -> None:
    """Fault: a kernel's centre off by one, a residual from the wrong layer, attention in the wrong layer, shared
    weights untied or normalised."""
    encoder, decoder, attending, options = CASES[case]
    state = random_state(encoder, decoder, attending, **options)
    shared = options.get("shared", False)
    folder = save(tmp_path, state, settings(encoder, decoder, left_pad_source="True", share_input_output_embed=shared))
    model = build_model(convert_saved(folder))
    check_logits(model, state, encoder, decoder, masked=True, left=False)
    if shared:
        assert model.decoder.output.weight is model.decoder.embed_tokens.weight
    found = beam_search([model], OURS[torch.tensor([[5, 0, 4, 2]])], SearchConfig(beam=2, max_length=6))[0]
    target_input = torch.tensor([[2, *found[0].ids[:-1]]])
    log_probs = model(OURS[torch.tensor([[5, 0, 4, 2]])], target_input)
    score = log_probs[0].gather(1, torch.tensor(found[0].ids)[:, None]).sum() / len(found[0].ids)
    assert abs(float(score.detach()) - found[0].score) < 1e-6  # step by step as all at once


def test_first_release(tmp_path: Path) -> None:
    """Fault: decoder convolutions normalised over the wrong axis, padding masked, targets padded on the right."""
    encoder, decoder = [(6, 3), (4, 3)], [(6, 3), (4, 2)]
    state = random_state(encoder, decoder, [True, True], first_release=True)
    assert state["decoder.convolutions.0.weight_g"].shape == (3, 1, 1)
    folder = save(tmp_path, state, settings(encoder, decoder, lr="0.25", lrshrink=0.1), stacked=True)
    checkpoint = convert_saved(folder)
    assert checkpoint["config"]["model"]["target_padding"] == TargetPadding.left.value
    assert checkpoint["config"]["model"]["source_padding"] == SourcePadding.original.value
    check_logits(build_model(checkpoint), state, encoder, decoder, masked=False, left=True)


def test_forms_of_weights_and_settings(tmp_path: Path) -> None:
    """Fault: half precision, removed or renamed weight normalisation, a wrapping for several GPUs, or settings of
    OmegaConf change the model."""
    encoder, decoder = [(6, 3)], [(6, 3)]
    state = random_state(encoder, decoder, [True])
    plain = {name: tensor for name, tensor in state.items() if not name.endswith(("weight_g", "weight_v"))}
    renamed = {
        name.replace("weight_g", "parametrizations.weight.original0").replace(
            "weight_v", "parametrizations.weight.original1"
        ): tensor
        for name, tensor in state.items()
    }
    for name in state:
        if name.endswith("weight_g"):
            layer = name.removesuffix(".weight_g")
            plain[f"{layer}.weight"] = reference_fconv.weight(state, layer)
    tree = {"model": {"_name": "fconv", "encoder_layers": text(encoder), "decoder_layers": text(decoder)}}
    variants = {
        "no normalisation": {"args": settings(encoder, decoder, left_pad_source=True), "model": plain},
        "new names": {"args": None, "cfg": tree, "model": renamed},
        "omegaconf": {"args": None, "cfg": OmegaConf.create(tree), "model": state},
        "half": {"args": None, "cfg": tree, "model": {name: tensor.half() for name, tensor in state.items()}},
        "several GPUs": {
            "args": settings(encoder, decoder, left_pad_source=True),
            "model": {f"module.{name}": tensor for name, tensor in state.items()},
        },
    }
    for name, content in variants.items():
        folder = save(tmp_path / name, state, None)
        torch.save(content, folder / "model.pt")
        model = build_model(convert_saved(folder))
        assert model.config.target_padding is TargetPadding.right  # their decoder has a version
        used = {key: tensor.float() for key, tensor in content["model"].items()} if name == "half" else state
        check_logits(model, used, encoder, decoder, masked=True, left=False)


def test_a_row_of_zeros_does_not_divide_by_zero(tmp_path: Path) -> None:
    """Fault: no epsilon and no direction: the logits of every word become NaN."""
    encoder, decoder = [(6, 3)], [(6, 3)]
    state = random_state(encoder, decoder, [True])
    del state["decoder.fc3.weight_g"]
    state["decoder.fc3.weight"] = state.pop("decoder.fc3.weight_v")
    state["decoder.fc3.weight"][1] = 0.0
    folder = save(tmp_path, state, settings(encoder, decoder, left_pad_source=True))
    check_logits(build_model(convert_saved(folder)), state, encoder, decoder, masked=True, left=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder.adaptive_softmax.head.weight": torch.ones(2, 2)}, "decoder.adaptive_softmax"),
        ({"encoder.layers.0.self_attn.bias": torch.ones(2)}, "not supported"),
        ({"encoder.fc2.bias": torch.ones(7)}, "encoder"),
        ({"encoder.fc1.weight_g": torch.ones(5, 1)}, "encoder.fc1.weight_g"),
        ({"encoder.convolutions.0.bias": torch.ones(3)}, "encoder"),
        ({"decoder.fc3.bias": torch.ones(3)}, "fc3"),
    ],
)
def test_what_is_no_fconv_model_is_refused(change: State, message: str, tmp_path: Path) -> None:
    """Fault: a model of another kind is converted to nonsense, or fails with a traceback."""
    encoder, decoder = [(6, 3)], [(6, 3)]
    state = random_state(encoder, decoder, [True]) | change
    folder = save(tmp_path, state, settings(encoder, decoder))
    with pytest.raises(UserError, match=message):
        convert_saved(folder)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    """Fault: a model whose training diverged, or a damaged one, is converted, and translates everything to nothing."""
    state = random_state([(6, 3)], [(6, 3)], [True])
    state["decoder.fc2.bias"][1] = value
    folder = save(tmp_path, state, settings([(6, 3)], [(6, 3)]))
    with pytest.raises(UserError, match=r"model\.pt: decoder\.out_embed_proj\.bias holds values that are not numbers"):
        convert_saved(folder)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a 1\nb 2\n", "2 words and 4 specials"),
        ("a 1\nb\n", "line 2"),
        ("a 1\nb x\n", "line 2"),
        (
            "a 1\n\xfc 1\n",
            r"line 2, byte 1: 0xfc is not UTF-8; convert .* LATIN1 -t UTF-8$",
        ),
    ],
)
def test_a_dictionary_that_does_not_fit_is_refused(lines: str, message: str, tmp_path: Path) -> None:
    """Fault: words and rows of the embeddings are shifted against each other."""
    folder = save(tmp_path, random_state([(6, 3)], [(6, 3)], [True]), settings([(6, 3)], [(6, 3)]))
    (folder / "dict.de.txt").write_text(lines, "latin-1")
    with pytest.raises(UserError, match=message):
        convert_saved(folder)


def test_a_word_that_stands_twice_in_a_dictionary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: the word gets the row that its own program no longer reads, rows shift, or nobody is told."""
    folder = save(tmp_path, random_state([(6, 3)], [(6, 3)], [True]), settings([(6, 3)], [(6, 3)]))
    lines = (folder / "dict.de.txt").read_text().splitlines()
    lines[2] = lines[0]
    (folder / "dict.de.txt").write_text("".join(f"{line}\n" for line in lines))
    tokenizer = build_tokenizers(convert_saved(folder)).source
    assert "dict.de.txt, line 3: 'word0' stood in line 1 already" in capsys.readouterr().err
    assert tokenizer.encode(["word0 word1 word3"]) == [[6, 5, 7]]


@pytest.mark.parametrize(
    "expression", ["__import__('os').system('true')", "[(6, 3)] * 10**9", "[(6, 3)] * 99999999", "[(5, 3)]", "(" * 5000]
)
def test_an_architecture_is_parsed_and_not_evaluated(expression: str, tmp_path: Path) -> None:
    """Fault: the settings' text is run, fills the memory, or contradicts the weights without a word."""
    folder = save(
        tmp_path,
        random_state([(6, 3)], [(6, 3)], [True]),
        argparse.Namespace(encoder_layers=expression, decoder_layers="[(6, 3)]"),
    )
    with pytest.raises(UserError, match="encoder_layers="):
        convert_saved(folder)


class Pairs:
    """Stands in for a Corpus."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]]) -> None:
        self.sources, self.targets = sources, targets

    def source(self, i: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(self.sources[i])

    def target(self, i: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(self.targets[i])


def test_batches_of_the_first_release() -> None:
    """Fault: with padding on the left, </s> starts the row instead of the sentence."""
    corpus: Any = Pairs([[5, 2], [6, 7, 8, 2]], [[4, 2], [5, 6, 2]])
    batch = collate(corpus, np.array([0, 1]), *padded_left(ModelConfig(target_padding=TargetPadding.left)))
    assert batch.source.tolist() == [[5, 2, 1, 1], [6, 7, 8, 2]]
    assert batch.target.tolist() == [[1, 4, 2], [5, 6, 2]]
    assert batch.target_input.tolist() == [[1, 2, 4], [2, 5, 6]]
    assert padded_left(ModelConfig(source_padding=SourcePadding.original)) == (True, False)


def test_codes_make_a_model_that_reads_raw_text(tmp_path: Path) -> None:
    """Fault: the release's BPE codes are ignored, and raw text is read as words that the model does not know."""
    pytest.importorskip("sacremoses")
    pytest.importorskip("subword_nmt")
    folder = save(tmp_path, random_state([(6, 3)], [(6, 3)], [True]), settings([(6, 3)], [(6, 3)]))
    pieces = ["H@@", "und", "e", ",", "ja", "!", "da", "x"]
    for language in ("de", "en"):
        lines = [f"{piece} 1\n" for piece in pieces[: 8 if language == "de" else 7]]
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    (folder / "codes").write_text("#version: 0.2\nu n\nun d</w>\nj a</w>\n")
    config = ConvertConfig(
        from_=Origin.fairseq_py,
        model_=str(folder / "model.pt"),
        source_dict=str(folder / "dict.de.txt"),
        target_dict=str(folder / "dict.en.txt"),
        codes=str(folder / "codes"),
        output=str(folder / "ours"),
    )
    checkpoint = fairseq_py.read(config)
    tokenizers = build_tokenizers(checkpoint)
    assert tokenizers.source.encode(["Hund, ja!"]) == [[4, 5, 7, 8, 9]]
    assert tokenizers.target.decode([4, 5, 7, 8, 9, 2]) == "Hund, ja!"
    assert checkpoint["config"]["text"]["kind"] == "moses_bpe"
    assert set(checkpoint["origin"]["files"]) == {"model.pt", "dict.de.txt", "dict.en.txt", "codes"}
