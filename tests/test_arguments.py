"""The command line as Hydra reads it: any text is a value, and only flags that work are taken."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from convs2s.arguments import QUIET, arranged, as_hydra_reads, quoted
from convs2s.config import ConvertConfig, TrainConfig, TranslateConfig
from convs2s.errors import UserError

NAMES = ["nö's (1).txt", "1e3", "007", "true", "a=b", "#h", "a!b", "back\\slash", "end\\", 'q"uote', "~x", "größe 1, 2"]


def read(override: str) -> object:
    """What Hydra makes of an override's value."""
    return OverridesParser.create().parse_override(override).value()


@pytest.mark.parametrize("name", NAMES)
def test_a_files_name_is_taken_as_it_is_written(name: str) -> None:
    """Fault: a parser's complaint about an umlaut or a bracket, or the file 1e3 sought as 1000.0."""
    assert read(as_hydra_reads(f"output={name}", TranslateConfig, sweep=False)) == name


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_can_be_quoted(text: str) -> None:
    """Fault: quotes or backslashes in a name end its quotes, or are doubled."""
    assert read(f"output={quoted(text)}") == text


def test_what_is_no_plain_text_stays_as_it_was() -> None:
    """Fault: lists, quotes, null, sweeps, interpolations and numbers become text."""
    for override in ("checkpoint=[a,b]", "input='a, b'", "attention=null", "output=", "output=a,b", "output=${input}"):
        assert as_hydra_reads(override, TranslateConfig, sweep=False) == override
    for override in ("search.lenpen=1e3", "model=small", "+data.test.test=[a,b]", "seed=range(1,3)", "model=glob(*)"):
        assert as_hydra_reads(override, TrainConfig, sweep=True) == override
    assert as_hydra_reads("run_dir=ö1,ö2", TrainConfig, sweep=True) == "run_dir=ö1,ö2"  # two runs: Hydra's to refuse


def test_names_like_words_of_python() -> None:
    """Fault: from= and model= of convert.py are unknown to Hydra, whose fields end in an underscore."""
    assert as_hydra_reads("from=safetensors", ConvertConfig, sweep=False) == "from_=safetensors"
    assert as_hydra_reads("model=größe", ConvertConfig, sweep=False) == 'model_="größe"'


def test_flags_and_options_in_any_order() -> None:
    """Fault: Hydra takes a flag's value for an option, or our settings for the value of a flag."""
    given_words = ["seed=1,2", "-m", "--config-dir", "a=b", "run_dir=x", "--config-name=config"]
    flags = ["-m", "--config-dir", "a=b", "--config-name", "config"]
    assert arranged(given_words, TrainConfig) == [*flags, *QUIET, "seed=1,2", "run_dir=x"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fast"], "there is no flag --fast; options are written name=value"),
        (["-sc", "install=bash"], "there is no flag -sc"),
        (["--experimental-rerun", "x"], "there is no flag --experimental-rerun"),
        (["--hydra-help"], "there is no flag --hydra-help"),
        (["--cfg"], "--cfg needs a value: --cfg job|hydra|all"),
        (["-c", "seed=1"], "-c needs a value: -c job|hydra|all"),
        (["--config-dir"], "--config-dir needs a value: --config-dir VALUE"),
        (["seed=glob(*)"], "glob chooses among the files of a group"),
        (["search=1"], "search=1: there is no such choice, only beam, greedy"),
        (["data=[files]"], "data=[files]: there is no such choice, only"),
        (["search=null"], "search=null: there is no such choice, only beam, greedy"),
    ],
)
def test_what_would_do_nothing_is_refused(words: list[str], message: str) -> None:
    """Fault: another program's usage over several lines, its traces, or a command that does nothing with success."""
    with pytest.raises(UserError) as refusal:
        arranged(words, TrainConfig)
    assert message in str(refusal.value)
