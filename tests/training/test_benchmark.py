"""What the training benchmark counts; the figures themselves are nobody's business here."""

from __future__ import annotations

import pytest
import torch
from runs import tiny_model
from torch.utils.flop_counter import FlopCounterMode

from convs2s.config import ConvolutionForm, TrainingConfig
from convs2s.model import ConvS2S
from convs2s.model.layers import Conv
from convs2s.training import benchmark
from convs2s.training.benchmark import Shape, measure, operations


def test_operations_are_those_of_the_products() -> None:
    """Fault: the share of the machine's peak is computed from too many or too few operations."""
    model = ConvS2S(tiny_model(dropout=0.0), 15, 17)
    shape = Shape(3, 5, 6, (15, 17))
    source, target = torch.randint(3, 15, (3, 5)), torch.randint(3, 17, (3, 6))
    with FlopCounterMode(display=False) as counter:
        model.loss(source, target, target).backward()  # type: ignore[no-untyped-call]
    # The first layers' inputs are embeddings, whose gradients are products too; nothing else is counted on top.
    assert abs(counter.get_total_flops() - operations(model, shape)) < 0.02 * operations(model, shape)


@pytest.mark.parametrize("form", [ConvolutionForm.conv1d, ConvolutionForm.product])
def test_a_measurement_says_what_was_measured(form: ConvolutionForm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: figures of one form of the convolution under the other's name, or of a padded batch as if it were not."""
    monkeypatch.setattr(benchmark, "yardstick", lambda device: 1.0)  # seconds saved
    model = ConvS2S(tiny_model(dropout=0.0), 15, 17)
    speed = measure("tiny", model, Shape(3, 5, 6, (15, 17)), TrainingConfig(convolution=form), torch.device("cpu"), 1)
    assert (speed.convolution, speed.padding_share) == (form.value, 0.0)
    assert {module.conv1d for module in model.modules() if isinstance(module, Conv)} == {form == ConvolutionForm.conv1d}
