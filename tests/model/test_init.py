"""Fresh parameters have the original's distribution."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers import PAD, golden_config, golden_json, our_name, small_config
from torch import Tensor

from convs2s.model import ConvS2S

STATISTICS: dict[str, Any] = golden_json("init_stats")


def check_normal(name: str, values: Tensor, std: float) -> None:
    """Mean 0 and the given std within 4 standard errors, with a normal distribution's tails."""
    count = values.numel()
    assert abs(float(values.double().std()) - std) < 4 * std / math.sqrt(2 * count), name
    assert abs(float(values.double().mean())) < 4 * std / math.sqrt(count), name
    if count > 30_000:
        assert float(values.abs().max()) > 3.5 * std, name  # a uniform distribution ends at 1.73 std


@pytest.mark.parametrize("case", STATISTICS)
def test_initialisation(case: str) -> None:
    """Fault: another std or fan-in, another place's dropout in it, g not |v|, bias not 0, or a zeroed pad row."""
    config = STATISTICS[case]["config"]
    model = ConvS2S(golden_config(config), config["src_vocab"], config["tgt_vocab"])
    parameters = dict(model.named_parameters())
    expected = set()
    for entry in STATISTICS[case]["params"]:
        name = our_name(entry["name"])
        if entry["kind"] == "embedding":
            table = parameters[f"{name}.weight"].detach()
            expected.add(f"{name}.weight")
            assert list(table.shape) == entry["weight"]["shape"], name
            check_normal(name, table, entry["expected_std"])
            check_normal(f"{name} pad row", table[PAD], entry["expected_std"])
            continue
        v, g, bias = (parameters[f"{name}.{part}"].detach() for part in ("v", "g", "bias"))
        expected.update(f"{name}.{part}" for part in ("v", "g", "bias"))
        assert list(v.shape) == entry["v"]["shape"], name
        check_normal(name, v, entry["expected_v_std"])
        torch.testing.assert_close(g, v.norm(dim=1, keepdim=True))
        assert not bias.any(), name
    assert set(parameters) == expected


def test_bottleneck_initialisation() -> None:
    """Fault: a bottleneck's inner layers count the dropout that only its first sees, or linears get the GLU's 4."""
    config = small_config([(256, 3)], [(256, 3)], bottleneck=2, embedding=64, dropout_hidden=0.5)
    parameters = {name: value.detach() for name, value in ConvS2S(config, 13, 11).named_parameters()}
    for side in ("encoder", "decoder"):
        layer = f"{side}.layers.0"
        check_normal(layer, parameters[f"{layer}.bottleneck_in.v"], math.sqrt((1 - 0.5) / 256))
        check_normal(layer, parameters[f"{layer}.conv.v"], math.sqrt(4 / (3 * 128)))
        check_normal(layer, parameters[f"{layer}.bottleneck_out.v"], math.sqrt(1 / 128))


def test_initialisation_is_seeded() -> None:
    """Fault: the constructor draws from another generator than torch's global one, so that seeds do nothing."""
    config = small_config([(6, 3)], [(6, 3)])
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(dict(ConvS2S(config, 13, 11).named_parameters()))
    drawn = [name for name in models[0] if not name.endswith(".bias")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in drawn)
    assert not any(torch.equal(models[0][name], models[2][name]) for name in drawn)
