"""Every file under configs/: it composes, builds the model that its header describes, and says what it costs."""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf, open_dict

from convs2s.cli import plain, register
from convs2s.config import Architecture, EvaluateConfig, LayerConfig, ModelConfig, TrainConfig, TranslateConfig
from convs2s.model import ConvS2S, build
from convs2s.options import CONFIGS

EXPERIMENTS = sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml"))
TABLES = ["figure2_decoder", "figure2_encoder", "table4", "table5", "table7", "table8"]
SWEEPS = [*TABLES, *(f"multi30k_{table}" for table in TABLES)]
GROUPS = sorted(
    f"{group}={path.stem}"
    for group in ("data", "text", "model", "optimizer", "search")
    for path in (CONFIGS / group).glob("*.yaml")
)
# Vocabulary sizes (source, target) for which the headers count parameters, and the encoder's receptive field.
SIZES = {
    "ablation": (160_000, 160_000, 27),
    "gigaword": (30_000, 30_000, 13),
    "iwslt14_de_en": (10_000, 10_000, 9),
    "multi30k_ablation": (10_000, 10_000, 7),
    "multi30k_bpe_de_en": (7_065, 5_202, 9),
    "multi30k_de_en": (10_000, 10_000, 9),
    "multi30k_en_de": (10_000, 10_000, 9),
    "multi30k_en_fr": (10_000, 10_000, 9),
    "wmt14_en_de": (40_000, 40_000, 27),
    "wmt14_en_de_release": (40_000, 40_000, 27),
    "wmt14_en_fr": (40_000, 40_000, 25),
    "wmt14_en_fr_release": (40_000, 40_000, 27),
    "wmt16_en_ro": (40_000, 40_000, 41),
    "wmt16_en_ro_words": (200_000, 80_000, 41),
}


@cache
def composed(*overrides: str) -> tuple[TrainConfig, dict[str, Any]]:
    """The configuration of scripts/train.py with these overrides, and its sweep: {option: values}."""
    register(TrainConfig, "train")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", list(overrides), return_hydra_config=True)
    params = OmegaConf.to_container(config.hydra.sweeper.params) if config.hydra.sweeper.params else {}
    assert isinstance(params, dict)
    with open_dict(config):
        del config["hydra"]
    return plain(TrainConfig, config), params


def stack(layers: list[LayerConfig]) -> list[tuple[int, int]]:
    """(channels, kernel) of each layer."""
    return [(layer.channels, layer.kernel) for layer in layers for _ in range(layer.repeat)]


def parameters(model: ModelConfig, source: int, target: int) -> int:
    """Counted by hand: embeddings, and v, g and bias of every weight-normalised layer."""

    def normed(inputs: int, outputs: int) -> int:
        return outputs * (inputs + 2)

    def blocks(layers: list[tuple[int, int]], width: int) -> int:
        count = 0
        for channels, kernel in layers:
            count += normed(kernel * width, 2 * channels)
            count += normed(width, channels) if width != channels else 0
            width = channels
        return count

    encoder, decoder = stack(model.encoder.layers), stack(model.decoder.layers)
    embedding, output = model.embedding, model.output_embedding
    count = (source + target) * embedding
    count += model.max_positions * embedding * (model.encoder.positions + model.decoder.positions)
    count += normed(embedding, encoder[0][0]) + blocks(encoder, encoder[0][0]) + normed(encoder[-1][0], embedding)
    count += normed(embedding, decoder[0][0]) + blocks(decoder, decoder[0][0])
    for (channels, _), attends in zip(decoder, model.decoder.attending(), strict=True):
        count += attends * (normed(channels, embedding) + normed(embedding, channels))
    count += normed(decoder[-1][0], output)
    return count + (target * (output + 1) if model.lookup_output else normed(output, target))


@pytest.mark.parametrize("name", sorted(SIZES))
def test_models_have_the_size_and_the_field_that_their_headers_name(name: str) -> None:
    """Fault: a layer list, width or vocabulary that differs from the paper's; a header that is out of date."""
    source, target, field = SIZES[name]
    config, _ = composed(f"experiment={name}")
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in ConvS2S(config.model, source, target).parameters())
    assert count == parameters(config.model, source, target)
    assert 1 + sum(kernel - 1 for _, kernel in stack(config.model.encoder.layers)) == field
    header = (CONFIGS / "experiment" / f"{name}.yaml").read_text("utf-8").split("defaults:")[0].replace("\n#", "")
    assert f"{count / 1e6:.1f} M parameters with {source:,} " in header
    if "encoder output sees" in header:
        assert f"an encoder output sees {field}" in header
    words = config.text.max_words
    assert words is None or (words, config.text.max_target_words or words) == (source, target)


def test_the_papers_layer_lists() -> None:
    """Fault: a list mistyped (paper, section 4.2); figures of the released en-de model: 209.6 M parameters."""
    wanted = {
        "wmt16_en_ro": [(512, 3)] * 20,
        "wmt14_en_de": [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2,
        "wmt14_en_fr": [(512, 3)] * 5 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)],
        "gigaword": [(256, 3)] * 6,
        "wmt14_en_de_release": [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2,
        "wmt14_en_fr_release": [(512, 3)] * 6 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)],
    }
    for name, layers in wanted.items():
        model = composed(f"experiment={name}")[0].model
        assert stack(model.encoder.layers) == stack(model.decoder.layers) == layers
        width = 768 if name.endswith("_release") else 256 if name == "gigaword" else 512
        assert (model.embedding, model.output_embedding) == (width, min(width, 512))
    released = composed("experiment=wmt14_en_de_release")[0].model
    assert round(parameters(released, 40_000, 40_000) / 1e6, 1) == 209.6
    ablation = composed("experiment=ablation")[0].model
    assert (stack(ablation.encoder.layers), stack(ablation.decoder.layers)) == ([(512, 3)] * 13, [(512, 5)] * 5)


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("wmt16_en_ro", 64),
        ("wmt16_en_ro_words", 64),
        ("wmt14_en_de", 48),
        ("wmt14_en_fr", 32),
        ("gigaword", 128),
        ("ablation", 64),
    ],
)
def test_what_the_paper_states_is_set(name: str, sentences: int) -> None:
    """Fault: another optimiser, batch, beam or annealing than the paper's (sections 4.2 and 4.3)."""
    config, _ = composed(f"experiment={name}")
    optimizer = config.optimizer
    assert (optimizer.lr, optimizer.momentum, optimizer.clip) == (0.25, 0.99, 0.1)
    assert (optimizer.min_lr, optimizer.shrink, optimizer.annealing.value) == (1e-4, 10.0, "fast")
    assert optimizer.normalize.value == "tokens"
    assert (config.training.batch_tokens, config.training.batch_sentences) == (None, sentences)
    assert config.search.beam == 5
    assert config.search.min_length == (14 if name == "gigaword" else 1)
    assert (config.data.max_length, config.data.length_unit.value) == (175, "words")
    if name != "gigaword":
        assert config.text.kind.value == "moses_bpe"
        assert config.text.merges == (0 if name in ("wmt16_en_ro_words", "ablation") else 40_000)
        assert 0.005 <= config.data.valid_fraction <= 0.01
    if name == "wmt14_en_fr":
        assert config.data.max_ratio == 1.5


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_opens_with_command_cost_and_expected_score(name: str) -> None:
    """Fault: a file without its command, cost or expected score; a run directory or name of another experiment."""
    text = (CONFIGS / "experiment" / f"{name}.yaml").read_text("utf-8")
    assert text.startswith("# @package _global_\n# ")
    header = text.split("defaults:")[0]
    assert f"scripts/train.py experiment={name}" in header or name == "quickstart"
    for word in ("Costs", "Expected"):
        assert word in header
    config, _ = composed(f"experiment={name}")
    of = "multi30k_ablation" if name.startswith("multi30k_") and name in SWEEPS else name  # whose runs they share
    assert config.experiment == of
    assert config.run_dir.startswith(f"runs/{of}")
    config.model.check()
    if "dropout: " in text:
        assert re.search(r"dropout: \S+ +# ", text) or name == "original_curve"


@pytest.mark.parametrize("name", SWEEPS)
def test_every_job_of_a_sweep_composes_into_its_own_run(name: str) -> None:
    """Fault: a sweep whose options do not exist, whose jobs share a run directory, or that has too few jobs."""
    _, params = composed(f"experiment={name}")
    parser = OverridesParser.create()
    overrides = [parser.parse_override(f"{option}={values}") for option, values in params.items()]
    jobs = list(
        itertools.product(
            *([f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()] for o in overrides)
        )
    )
    text = (CONFIGS / "experiment" / f"{name}.yaml").read_text("utf-8")
    assert f"Costs: {len(jobs)} trainings" in text
    assert "mode: MULTIRUN" in text
    some = jobs[0], jobs[1], jobs[-1]
    configs = [composed(f"experiment={name}", *job)[0] for job in some]
    assert len({config.run_dir for config in configs}) == len(some)
    assert len({str((config.model, config.seed)) for config in configs}) == len(some)
    assert len({config.data.prepared_dir for config in configs}) == 1


def test_tables_at_a_laptop_s_scale_share_runs() -> None:
    """Fault: the model that all tables have in common is trained once for each, or another under its name."""
    base, _ = composed("experiment=multi30k_ablation")
    assert base.run_dir.endswith("/encoder3x3-decoder5x3-attentionNone-positionsTrueTrue-seed1")
    varied = set()
    for table in TABLES:
        config, params = composed(f"experiment=multi30k_{table}")
        assert config == base
        varied |= set(params)
    swept = [composed(f"experiment=multi30k_{table}")[1] for table in ("table5", "figure2_decoder", "figure2_encoder")]
    assert [list(params.values()) for params in swept] == [["null,[1,2,3],[1],[5]"], ["1,3,5"], ["1,3,5,9"]]
    written = (CONFIGS / "experiment" / "multi30k_ablation.yaml").read_text("utf-8")
    assert all(f"${{{option}}}" in written for option in varied), "an option that a table varies is not in run_dir"


def test_the_recurrent_contrast_is_trained_likewise() -> None:
    """Fault: what is laid beside the convolutional model differs from it in more than the model."""
    ours, other = (composed(f"experiment=multi30k_{name}")[0] for name in ("ablation", "lstm_attention"))
    for part in ("data", "text", "optimizer", "training", "search", "seed"):
        assert getattr(ours, part) == getattr(other, part)
    assert other.model.architecture == Architecture.lstm_attention
    other.model.check()
    with torch.device("meta"):
        sizes = [sum(p.numel() for p in build(c.model, 10_000, 10_000).parameters()) for c in (ours, other)]
    header = (CONFIGS / "experiment" / "multi30k_lstm_attention.yaml").read_text("utf-8")
    assert f"Size: {sizes[1] / 1e6:.1f} M parameters" in header
    assert 0.8 < sizes[1] / sizes[0] < 1.25


@pytest.mark.parametrize("name", ["ablation", "table4", "figure2_encoder"])
def test_the_paper_s_ablations_select_vocabularies(name: str) -> None:
    """Fault: 160,000 words are scored for every token, which the paper did not do."""
    config, _ = composed(f"experiment={name}")
    assert config.model.lookup_output
    assert config.training.selection.lexicon == f"{config.data.prepared_dir}.lexicon" == config.search.selection.lexicon


@pytest.mark.parametrize("choice", GROUPS)
def test_every_choice_of_every_group_composes(choice: str) -> None:
    """Fault: an option that does not exist or has the wrong type in a file that no experiment names."""
    composed(choice)


@pytest.mark.parametrize("name", ["wmt14_en_de", "multi30k_de_en", "iwslt14_de_en"])
def test_the_text_pipeline_can_be_chosen(name: str) -> None:
    """Fault: a command line whose text=... loses against the experiment, or two pipelines in one folder."""
    folders = set()
    for kind in ("sentencepiece", "moses_bpe"):
        config, _ = composed(f"experiment={name}", f"text={kind}")
        assert config.text.kind.value == kind
        folders.add(config.data.prepared_dir)
    assert len(folders) == 2


@pytest.mark.parametrize(("name", "schema"), [("evaluate", EvaluateConfig), ("translate", TranslateConfig)])
def test_the_other_scripts_compose(name: str, schema: type) -> None:
    """Fault: an entry file whose options its schema does not have."""
    register(schema, name)
    given = ["checkpoint=x"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = plain(schema, compose(name, given))
    assert config.search.beam == 5


def test_a_sweep_can_be_jobs_of_a_cluster() -> None:
    """Fault: the launcher's file names options that it does not have, or is no launcher for SLURM."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs the extra slurm")
    register(TrainConfig, "train")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", ["hydra/launcher=slurm", "hydra.launcher.partition=gpu"], return_hydra_config=True)
    launcher = config.hydra.launcher
    assert launcher._target_.endswith("SlurmLauncher")
    assert (launcher.partition, launcher.gpus_per_node, launcher.nodes) == ("gpu", 1, 1)
    assert launcher.max_num_timeout > 0
    assert launcher.submitit_folder.startswith("runs/")


def test_no_file_is_forgotten() -> None:
    """Fault: a configuration file that no test composes."""
    tested = {CONFIGS / "experiment" / f"{name}.yaml" for name in EXPERIMENTS}
    tested |= {CONFIGS / Path(*choice.split("=")).with_suffix(".yaml") for choice in GROUPS}
    entries = set(CONFIGS.glob("*.yaml"))
    launchers = {CONFIGS / "hydra" / "launcher" / "slurm.yaml"}
    assert tested | entries | launchers == set(CONFIGS.rglob("*.yaml"))
    assert {path.stem for path in entries} >= {"train", "evaluate", "translate"}
    assert set(SIZES) | set(SWEEPS) | {"quickstart", "original_curve", "multi30k_lstm_attention"} == set(EXPERIMENTS)
