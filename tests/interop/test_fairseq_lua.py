"""Models of the authors' Lua release become checkpoints of ours: the same logits, the same searches."""

from __future__ import annotations

import gzip
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    GOLDEN,
    build,
    golden_arrays,
    golden_config,
    golden_json,
    golden_parameters,
    load_parameters,
    ours,
    rounding,
    small_config,
)
from hypothesis import given
from hypothesis import strategies as st
from lua_model import Builder, dictionary, sequence
from torch7_writer import dump

from convs2s.config import ConvertConfig, ModelConfig, Origin, SearchConfig, SourcePadding, from_plain
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_split
from convs2s.interop import fairseq_lua, nngraph
from convs2s.interop.checkpoint import check_fit, language, write
from convs2s.interop.torch7 import Object, Storage, Table, Tensor, load
from convs2s.model import ConvS2S
from convs2s.model.layers import expand
from convs2s.options import options
from convs2s.search.beam import beam_search
from convs2s.search.translate import translate_lines
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer
from convs2s.training import checkpoint

DICTIONARIES = {"toy_a": ("dict_toy.src", "dict_toy.tgt"), "tiny_model_opt": ("dict.de", "dict.en")}


def unpacked(name: str, folder: Path) -> str:
    """A golden Torch7 file."""
    path = folder / f"{name}.th7"
    path.write_bytes(gzip.decompress((GOLDEN / f"{name}.th7.gz").read_bytes()))
    return str(path)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The golden models as checkpoints that were saved and loaded."""
    folder = tmp_path_factory.mktemp("lua")
    found = {}
    for name, sides in DICTIONARIES.items():
        source, target = (unpacked(side, folder) for side in sides)
        config = ConvertConfig(
            from_=Origin.fairseq_lua,
            model_=unpacked(name, folder),
            source_dict=source,
            target_dict=target,
            output=str(folder / "runs" / name),
        )
        write(config.output, fairseq_lua.read(config))
        found[name] = checkpoint.load(folder / "runs" / name / "checkpoints" / "best.pt")
    return found


def best(model: ConvS2S, source: list[int], beam: int) -> list[Any]:
    """1-based ids and score of the n-best list."""
    settings = SearchConfig(beam=beam, nbest=beam, max_length=200)
    (found,) = beam_search([model], torch.tensor([source]) - 1, settings)
    return [([token + 1 for token in hypothesis.ids], hypothesis.score) for hypothesis in found]


# --- the original's own files -------------------------------------------------------------------------------------


def test_toy_parameters(converted: dict[str, Any]) -> None:
    """Fault: a weight of the training form gets another's place, or is changed."""
    golden = golden_parameters(golden_arrays("toy_a"))
    state = converted["toy_a"]["model"]
    assert set(state) == set(golden)
    for name, tensor in state.items():
        assert torch.equal(tensor.double(), golden[name]), name


def test_inferred_architecture(converted: dict[str, Any]) -> None:
    """Fault: widths, kernels, attention, dropout or padding are not those of the model."""
    for name, widths in (("toy_a", ([16, 16, 24], [20, 20, 16])), ("tiny_model_opt", ([32, 32, 48], [32, 32, 32]))):
        config = from_plain(ModelConfig, converted[name]["config"]["model"])
        stacks = expand(config.encoder.layers), expand(config.decoder.layers)
        assert tuple([layer.channels for layer in stack] for stack in stacks) == widths
        assert {layer.kernel for stack in stacks for layer in stack} == {3}
        assert config.decoder.attention is None
        assert config.bottleneck == 0
        assert config.max_positions == 1024
        assert [config.rate(place) for place in ("source", "target", "hidden", "output")] == [0.1] * 4
        assert config.source_padding is SourcePadding.original


def test_logits_of_the_optimised_form(converted: dict[str, Any]) -> None:
    """Fault: the converted model is not the one that the original evaluated, on a batch padded on the left.

    In float64, where the weights decide and not the order of a sum, ours lie on the original's double and within 1e-5
    of its float32. Logits reach 58, where neighbours in float32 are 3.8e-6 apart: there the original is 6e-6 off its
    own double and ours are 1.2e-5, whatever the order of our sums (products in float64 alone would halve it).
    """
    golden = golden_arrays("tiny_model")
    model = checkpoint.build_model(converted["tiny_model_opt"])
    source, target_input = (ours(golden[f"batch.{side}_TxB"].T) for side in ("source", "input"))
    single, double = golden["out.logits_float"], golden["out.logits_double"]
    with torch.no_grad():
        rounded = model.logits(source, target_input)
        exact = model.double().logits(source, target_input)
    torch.testing.assert_close(exact, double, rtol=0, atol=1e-11)
    torch.testing.assert_close(exact, single, rtol=0, atol=1e-5)
    torch.testing.assert_close(rounded.double(), double, rtol=0, atol=4 * rounding(double))


@pytest.mark.parametrize("form", ["tiny_model.th7", "tiny_model_opt.th7"])
def test_searches_of_the_original(form: str, converted: dict[str, Any]) -> None:
    """Fault: the converted model's n-best lists are not the original's, hypothesis by hypothesis."""
    golden = golden_json("tiny_model")
    model = checkpoint.build_model(converted["tiny_model_opt"])
    tokenizers = checkpoint.build_tokenizers(converted["tiny_model_opt"])
    symbols = golden["symbols"]["src"]
    assert tokenizers.source.symbols == symbols
    assert tokenizers.target.symbols == golden["symbols"]["tgt"]
    lines = [" ".join(symbols[i - 1] for i in result["source"][:-1]) for result in golden["generation"][form]]
    texts = [found[0].text for found in translate_lines([model], tokenizers, lines, SearchConfig(max_length=200))]
    for result, text in zip(golden["generation"][form], texts, strict=True):
        found = best(model, result["source"], 5)
        assert [ids for ids, _ in found] == [hypothesis["ids"] for hypothesis in result["hypos"]]
        assert [score for _, score in found] == pytest.approx([h["score"] for h in result["hypos"]], abs=2e-6)
        assert f"{text} </s>" == result["hypos"][0]["text"]


@pytest.mark.parametrize("run", ["beam1", "beam5", "beam5_fconvfast"])
def test_searches_of_the_toy_model(run: str, converted: dict[str, Any]) -> None:
    """Fault: as above, for the training form."""
    golden = golden_json("search")
    model = checkpoint.build_model(converted["toy_a"])
    (found,) = (entry for entry in golden["runs"] if entry["name"] == run)
    assert len(found["results"]) == 8
    for result in found["results"]:
        hypotheses = best(model, golden["sources"][result["source_index"]], found["options"]["beam"])
        assert [ids for ids, _ in hypotheses] == [hypothesis["ids"] for hypothesis in result["hypos"]]


# --- any architecture, any form -----------------------------------------------------------------------------------


def put(folder: Path, name: str, value: Any, **options: bool) -> str:
    path = folder / f"{name}.th7"
    path.unlink(missing_ok=True)
    path.write_bytes(dump(value, **options))
    return str(path)


def forms(model: ConvS2S, config: ModelConfig) -> tuple[list[tuple[int, int]], ...]:
    return tuple(
        [(layer.channels, layer.kernel) for layer in expand(side.layers)] for side in (config.encoder, config.decoder)
    )


@given(data=st.data())
def test_inference(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fault: some architecture or form (widths, kernels, attention, bottleneck, types, ascii) is misread."""
    folder = tmp_path_factory.mktemp("model")
    width = st.sampled_from([4, 6, 8])
    encoder = data.draw(st.lists(st.tuples(width, st.sampled_from([1, 3, 5])), min_size=1, max_size=4))
    decoder = data.draw(st.lists(st.tuples(width, st.sampled_from([1, 2, 3, 4])), min_size=1, max_size=4))
    attention = data.draw(st.none() | st.sets(st.integers(1, len(decoder)), max_size=len(decoder) - 1).map(sorted))
    config = small_config(
        encoder,
        decoder,
        attention=attention,
        bottleneck=data.draw(st.sampled_from([0, 0, 2])),
        max_target_positions=data.draw(st.sampled_from([None, 30])),
        dropout=data.draw(st.sampled_from([0.0, 0.25])),
        lookup_output=data.draw(st.booleans()),
        source_padding=SourcePadding.original,
    )
    model = build(config).float()
    lua = Builder(model, data.draw(st.booleans()), data.draw(st.booleans()), dropout=config.dropout).build()
    form = {option: data.draw(st.booleans()) for option in ("ascii", "cuda", "double")}
    found, state = fairseq_lua.read_model(put(folder, "model", lua, **form))
    assert forms(model, found) == forms(model, config)
    assert found.decoder.attending() == config.decoder.attending()
    assert (found.embedding, found.output_embedding) == (6, 5)
    assert (found.max_positions, found.max_target_positions) == (40, config.max_target_positions)
    assert found.lookup_output == config.lookup_output
    assert found.rate("source") == found.rate("target") == found.rate("output") == config.dropout
    read = ConvS2S(found, 13, 11)
    read.load_state_dict(state)
    for name, tensor in model.state_dict().items():
        assert torch.equal(state[name], tensor), name


def test_vocabulary_selection(tmp_path: Path) -> None:
    """Fault: an output layer that is a lookup table (aligned vocabulary) is refused, or becomes a normalised one, so
    that fine-tuning takes other steps than the original's training: its numbers are compared."""
    arrays, settings = golden_arrays("fconv_tiny_vocsel"), golden_json("fconv_tiny_vocsel")["config"]
    model = ConvS2S(replace(golden_config(settings), lookup_output=True), settings["src_vocab"], settings["tgt_vocab"])
    load_parameters(model, by_role(golden_parameters(arrays)))
    found, state = fairseq_lua.read_model(put(tmp_path, "model", Builder(model, dropout=0.0).build()))
    assert found.lookup_output
    read = ConvS2S(found, settings["src_vocab"], settings["tgt_vocab"])
    read.load_state_dict(state)
    batch = [ours(arrays[f"batch.{key}_TxB"]).T.contiguous() for key in ("source", "input", "target_remapped")]
    loss = read.double().loss(batch[0], batch[1], batch[2], ours(arrays["batch.targetVocab"]))
    loss.backward()
    torch.testing.assert_close(loss, arrays["out.loss_sum"][0], rtol=1e-6, atol=0)
    for name, gradient in by_role(golden_parameters(arrays, "grad.")).items():
        torch.testing.assert_close(read.get_parameter(name).grad, gradient, rtol=0, atol=1e-5, msg=name)


def by_role(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.replace("out_lookup", "output"): tensor for name, tensor in parameters.items()}


# --- dictionaries -------------------------------------------------------------------------------------------------


def test_words(tmp_path: Path) -> None:
    """Fault: words beyond the cutoff get ids, or bytes that are not UTF-8 end in an error."""
    words = ["der", "caf\udce9", "Haus", "rare"]
    path = put(tmp_path, "dict", dictionary(words, cutoff=6))
    assert fairseq_lua.read_words(path, "source", 6) == ["der", "caf\ufffd", "Haus"]
    assert fairseq_lua.read_words(put(tmp_path, "empty", dictionary(words, cutoff=3)), "source", 3) == []


def test_joiner(tmp_path: Path) -> None:
    """Fault: the '@@' of BPE pieces stays in translations."""
    model = build(small_config([(4, 1)], [(4, 1)], source_padding=SourcePadding.original), source=5, target=5).float()
    options = {
        "from_": Origin.fairseq_lua,
        "model_": put(tmp_path, "model", Builder(model).build()),
        "source_dict": put(tmp_path, "a", dictionary(["ein", "Wort"])),
        "target_dict": put(tmp_path, "b", dictionary(["so@@", "me"])),
        "output": str(tmp_path / "out"),
    }
    saved = fairseq_lua.read(ConvertConfig(**options))
    assert checkpoint.build_tokenizers(saved).target.decode([3, 4, 2]) == "some"
    assert checkpoint.train_config(saved).text.joiner == "@@"
    plain = fairseq_lua.read(ConvertConfig(**options, joiner=""))
    assert checkpoint.build_tokenizers(plain).target.decode([3, 4, 2]) == "so@@ me"


@pytest.mark.parametrize(
    ("name", "found"), [("data/dict.de.th7", "de"), ("dict.txt", "source"), ("a.b.c", "source"), (None, "source")]
)
def test_languages_stand_in_the_names_of_dictionaries(name: str | None, found: str) -> None:
    """Fault: a converted model's languages are unknown, or parts of any file name."""
    assert language(name, "source") == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.content.entries.update(cutoff=4.0), "4 words, but the model has 5"),
        (lambda d: d.content.entries.update(cutoff=9.0), "9 words, but the model has 5"),
        (lambda d: d.content.entries.update(cutoff="x"), "x words"),
        (lambda d: d.content.entries.update(pad_index=1.0), "symbol 2 is not <pad>"),
        (lambda d: d.content.entries.update(index_to_symbol=None), "not a dictionary"),
        (lambda d: d.content.get("index_to_symbol").entries.update({4.0: "two words"}), "symbol 4 has a space"),
        (lambda d: d.content.get("index_to_symbol").entries.update({1.0: "</s>"}), "symbol 1 is not <unk>"),
    ],
)
def test_wrong_dictionaries(change: Any, message: str, tmp_path: Path) -> None:
    """Fault: another model's dictionary, or a damaged one, is accepted and words get wrong ids."""
    lua = dictionary(["a", "b"])
    change(lua)
    with pytest.raises(UserError, match=message):
        fairseq_lua.read_words(put(tmp_path, "dict", lua), "source", 5)


def test_dictionaries_must_be_given() -> None:
    """Fault: a forgotten dictionary ends in a traceback."""
    with pytest.raises(UserError, match="target_dict must be given"):
        fairseq_lua.read_words(None, "target", 5)


# --- refusals -----------------------------------------------------------------------------------------------------


def lua_model() -> Object:
    return Builder(build(small_config([(4, 3)], [(4, 3), (6, 1)])).float()).build()


def inner(lua: Object, *path: int) -> Any:
    """The module at a path of positions in the network."""
    found = lua.get("module")
    for position in path:
        found = nngraph.children(found)[position]
    return found


def refused(value: Any, tmp_path: Path) -> str:
    with pytest.raises(UserError) as caught:
        fairseq_lua.read_model(put(tmp_path, "model", value))
    assert "model.th7: " in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_files(tmp_path: Path) -> None:
    """Fault: a training state, another model's file or a dictionary is taken for a model."""
    for value, kind in (
        (Table({"params": 1.0}), "table"),
        (dictionary([]), "Dictionary"),
        ("text", "str"),
        (None, "none"),
    ):
        assert f"holds a {kind.lower()}" in refused(value, tmp_path).lower()
    assert "holds a AvgpoolModel" in refused(Object("AvgpoolModel", "1", lua_model().content), tmp_path)
    assert "holds a FConvModel" in refused(Object("FConvModel", "1", Table()), tmp_path)


def test_missing_and_surplus_parts(tmp_path: Path) -> None:
    """Fault: a model of another kind is converted with parts left out or made up."""
    lua = lua_model()
    lua.content.entries["module"] = Object("nn.Sequential", "1", Table())
    assert "parts named 'encoder': found 0" in refused(lua, tmp_path)
    lua = lua_model()
    inner(lua, 0).content.entries["forwardnodes"] = sequence()
    assert "encoder embeddings: found 0" in refused(lua, tmp_path)
    lua = lua_model()
    inner(lua, 0, 1, 0).content.get("modules").entries[3.0] = Object("nn.Identity", "1", Table())
    assert "no blocks" in refused(lua, tmp_path)
    lua = lua_model()
    extra = Builder(build(small_config([(4, 3)], [(4, 3)])).float()).linear("encoder.in_proj")
    inner(lua, 1, 1).content.get("modules").entries |= {5.0: extra, 6.0: extra}
    assert "decoder.output: found 2" in refused(lua, tmp_path)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    """Fault: gains or biases of another size pass, or an expanded tensor is copied to memory."""
    lua = lua_model()
    layer = nngraph.weights(lua.get("module"))[0]
    store = Storage("torch.FloatStorage", torch.zeros(3).numpy())
    layer.content.entries["g"] = Tensor("torch.FloatTensor", store.array, store)
    assert "3 gains" in refused(lua, tmp_path)
    layer.content.entries["g"] = 5.0
    assert "has no g" in refused(lua, tmp_path)
    huge = torch.zeros(1).expand(4000, 4000).numpy()
    layer.content.entries["g"] = Tensor("torch.FloatTensor", huge, Storage("torch.FloatStorage", huge[0, :1]))
    assert "has the sizes [4000, 4000]" in refused(lua, tmp_path)


def test_cycles(tmp_path: Path) -> None:
    """Fault: a module inside itself makes the walk endless."""
    lua = lua_model()
    root = lua.get("module")
    inner(lua, 1, 1).content.get("modules").entries[5.0] = root
    nodes = root.get("forwardnodes").entries
    nodes[float(len(nodes) + 1)] = Object("nngraph.Node", "1", Table({"data": Table({"module": root})}))
    found, _ = fairseq_lua.read_model(put(tmp_path, "model", lua))
    assert found.embedding == 6


def test_enormous_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a hostile graph takes time that grows with the square of its size."""
    monkeypatch.setattr(nngraph, "MAX_MODULES", 20)
    assert "more than 20" in refused(lua_model(), tmp_path)


def everything(root: Object) -> list[Table]:
    """All tables of a tree."""
    found, stack, seen = [], [root.content], set()
    while stack:
        table = stack.pop()
        if isinstance(table, Table) and id(table) not in seen:
            seen.add(id(table))
            found.append(table)
            stack += [item.content if isinstance(item, Object) else item for item in table.entries.values()]
    return found


def sound(path: str) -> bool:
    """Whether a file converts, to a model whose weights fit together; anything but UserError fails the test."""
    try:
        config, state = fairseq_lua.read_model(path)
        sizes = [len(state[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")]
        check_fit(path, config, state, (sizes[0], sizes[1]))
    except UserError:
        return False
    return True


def test_fuzzed_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a network whose parts were exchanged at random ends in something else than UserError or a sound model."""
    generator = random.Random(3)
    results = []
    for _ in range(120):
        lua = lua_model()
        tables = everything(lua)
        for _ in range(generator.choice([1, 1, 2, 4])):
            table = generator.choice([table for table in tables if table.entries])
            key, other = generator.choice(list(table.entries)), generator.choice(tables)
            table.entries[key] = generator.choice(
                [None, 1.0, -3.5, "text", other, *other.entries.values(), lua.get("module"), Table()]
            )
        monkeypatch.setattr(fairseq_lua.torch7, "load", lambda path, lua=lua: lua)
        results.append(sound("model.th7"))
    assert 20 < results.count(False) < 120


def test_fuzzed_files(tmp_path: Path) -> None:
    """Fault: a bit that flipped in a model file ends in something else than UserError or a model."""
    generator = random.Random(4)
    content = dump(lua_model())
    results = []
    for number in range(40):
        damaged = bytearray(content)
        for _ in range(20):
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        path = tmp_path / f"{number}.th7"
        path.write_bytes(damaged)
        results.append(sound(str(path)))
    assert results.count(False) > 20


# --- the script ---------------------------------------------------------------------------------------------------


def script(*arguments: str) -> None:
    """scripts/convert.py in this process."""
    path = Path(__file__).parents[2] / "scripts" / "convert.py"
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    sys.argv = [str(path), *arguments]
    exec(code, {"__name__": "__main__", "__file__": str(path)})


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])


def arguments(tmp_path: Path) -> list[str]:
    source, target = (unpacked(side, tmp_path) for side in DICTIONARIES["toy_a"])
    model = unpacked("toy_a", tmp_path)
    return ["from=fairseq_lua", f"model={model}", f"source_dict={source}", f"target_dict={target}"]


@pytest.mark.usefixtures("command_line")
def test_convert_then_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: the command line of the issue is refused, or evaluation cannot use what it writes."""
    script(*arguments(tmp_path), f"output={tmp_path}/run")
    assert "50,314 weights" in capsys.readouterr().out
    text = tmp_path / "text"
    text.write_text("s4 s5 s6\n\ns7 s8\n")
    best = tmp_path / "run/checkpoints/best.pt"
    with pytest.raises(UserError, match="knows no data, as converted models do: give source= and reference="):
        evaluate_split(best, "test", SearchConfig())
    report = evaluate_split(best, "test", SearchConfig(beam=2), files=(str(text), str(text)))
    assert report["sentences"] == 3
    assert Path(report["translations"]).read_text().count("\n") == 3


@pytest.mark.usefixtures("command_line")
def test_convert_never_replaces_a_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: converting into a run's folder destroys what was trained there; converting again is refused."""
    command = [*arguments(tmp_path), f"output={tmp_path}/run"]
    script(*command)
    script(*command)
    path = tmp_path / "run/checkpoints/best.pt"
    saved = checkpoint.load(path)
    del saved["origin"]
    checkpoint.save(path, saved)
    before = path.read_bytes()
    with pytest.raises(SystemExit):
        script(*command)
    assert "holds a checkpoint of a training" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.usefixtures("command_line")
@pytest.mark.parametrize(
    ("given_arguments", "message"),
    [
        (["from=fairseq_lua", "output=x"], "model must be given: add model=VALUE"),
        (["from=lua", "model=x", "output=x"], "from=lua: "),
        (["form=fairseq_lua", "model=x", "output=x"], "did you mean from?"),
        (["from=fairseq_lua", "model=/none.th7", "output=x"], "/none.th7: cannot be read"),
    ],
)
def test_mistakes_on_the_command_line(
    given_arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault: a mistake names a field (model_, from_) that is no option, or ends in a traceback."""
    with pytest.raises(SystemExit) as ended:
        script(*given_arguments)
    assert ended.value.code == 1
    assert message in capsys.readouterr().err
    assert [name for name, *_ in options(ConvertConfig)][:3] == ["from", "to", "model"]


def test_words_like_specials() -> None:
    """Fault: the tokeniser of a converted model reads a word '</s>' in the text as the end of the sentence."""
    assert WhitespaceTokenizer(["a"]).encode(["a </s> a"]) == [[3, 0, 3]]


def test_reading_leaves_the_file_alone(tmp_path: Path) -> None:
    """Fault: weights of a checkpoint are views of the mapped file and change, or vanish, with it."""
    path = put(tmp_path, "model", lua_model())
    _, state = fairseq_lua.read_model(path)
    before = {name: tensor.clone() for name, tensor in state.items()}
    state["encoder.in_proj.v"].zero_()
    assert isinstance(load(path), Object)
    _, again = fairseq_lua.read_model(path)
    assert all(torch.equal(again[name], tensor) for name, tensor in before.items())
