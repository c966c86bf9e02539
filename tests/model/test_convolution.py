"""The two ways to compute a convolution are one, and which is taken is a rule."""

from __future__ import annotations

import pytest
import torch
from helpers import build, gradients, pad, random_sentences, shift, small_config
from torch.testing import assert_close

from convs2s.config import ConvolutionForm, OptimizerConfig, Precision, TrainingConfig
from convs2s.model import ConvS2S
from convs2s.model.layers import Conv, use_conv1d
from convs2s.training.distributed import World
from convs2s.training.nag import NAG
from convs2s.training.update import Updater, conv1d_is_faster

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def both_ways(model: ConvS2S) -> list[dict[str, torch.Tensor]]:
    """Loss and gradients of each parameter as a product and by conv1d."""
    sources, targets = random_sentences(1, [2, 7, 4], 13), random_sentences(2, [5, 1, 3], 11)
    found = []
    for yes in (False, True):
        use_conv1d(model, yes)
        model.zero_grad()
        loss = model.loss(pad(sources, True), pad(shift(targets), False), pad(targets, False))
        loss.backward()
        found.append({"loss": loss.detach(), **{name: grad.clone() for name, grad in gradients(model).items()}})
    return found


def test_both_forms_are_equal() -> None:
    """Fault: the kernel's positions are exchanged with channels or turned round, or the encoder's factor is lost."""
    model = build(small_config([(6, 3), (7, 4)], [(6, 3), (5, 1)]))
    assert {module.gradient_scale for module in model.modules() if isinstance(module, Conv)} == {0.25, 1.0}
    product, library = both_ways(model)
    for name, value in product.items():
        assert_close(library[name], value, rtol=1e-10, atol=1e-10, msg=name)


def test_both_forms_are_close_in_bf16() -> None:
    """Fault: one of the forms computes in another type, or fails to differentiate, under autocast."""
    model = build(small_config([(6, 3), (7, 4)], [(6, 3), (5, 2)])).float()
    with torch.autocast("cpu", torch.bfloat16):
        product, library = both_ways(model)
    for name, value in product.items():
        assert library[name].dtype == value.dtype == torch.float32
        assert_close(library[name], value, rtol=0.05, atol=0.05 * float(value.abs().max()), msg=name)


@pytest.mark.parametrize(
    ("device", "capability", "precision", "conv1d"),
    [
        (CPU, "AVX512", Precision.fp32, True),
        (CPU, "AVX512", Precision.bf16, False),
        (CPU, "AVX2", Precision.fp32, False),
        (CPU, "AVX2", Precision.bf16, False),
        (CPU, "DEFAULT", Precision.fp32, False),
        (GPU, "AVX512", Precision.fp32, False),
        (GPU, "AVX512", Precision.fp16, False),
    ],
)
def test_auto_takes_what_measured_faster(
    device: torch.device, capability: str, precision: Precision, conv1d: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the choice depends on something else, or an explicit one is overruled."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert conv1d_is_faster(device, precision, ConvolutionForm.auto) == conv1d
    assert conv1d_is_faster(device, precision, ConvolutionForm.conv1d)
    assert not conv1d_is_faster(device, precision, ConvolutionForm.product)


@pytest.mark.parametrize("form", [ConvolutionForm.conv1d, ConvolutionForm.product])
def test_training_sets_the_form(form: ConvolutionForm) -> None:
    """Fault: training.convolution is read by nobody."""
    model = build(small_config([(6, 3)], [(6, 3)]))
    use_conv1d(model, form == ConvolutionForm.product)
    Updater(
        model, NAG(model.parameters(), 0.25), TrainingConfig(convolution=form), OptimizerConfig(), 1, World(0, 1, CPU)
    )
    chosen = {module.conv1d for module in model.modules() if isinstance(module, Conv)}
    assert chosen == {form == ConvolutionForm.conv1d}
