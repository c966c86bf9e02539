"""Dropout's masks on a CPU, which are not PyTorch's own."""

from __future__ import annotations

import pytest
import torch

from convs2s.model.layers import Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_entries_are_dropped_independently(p: float, dtype: torch.dtype) -> None:
    """Fault: a wrong rate or scale; entries whose numbers were drawn together are dropped together."""
    entries = 400_000
    y = Dropout(p)(torch.ones(1000, 20, 20, dtype=dtype))
    kept = (y != 0).double().flatten()
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1.0 / (1.0 - p), dtype=dtype).item()}
    assert abs(float(kept.mean()) - (1.0 - p)) < 4.0 * (p * (1.0 - p) / entries) ** 0.5
    for distance in (1, 2, 3, 4, 20, 400):
        both = float((kept[distance:] * kept[:-distance]).mean())
        deviation = (p * (1.0 - p) * (1.0 + (1.0 - p) ** 2) / entries) ** 0.5  # a bound for sums of such pairs
        assert abs(both - (1.0 - p) ** 2) < 5.0 * deviation


def test_the_gradient_has_the_mask() -> None:
    """Fault: what was dropped gets a gradient, or another mask is drawn for the backward pass."""
    x = torch.randn(7, 5, 3, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (y != 0) / 0.6)


def test_masks_follow_the_seed() -> None:
    """Fault: a resumed run draws other masks than the uninterrupted one, or every update draws the same."""
    layer, x, draws = Dropout(0.5), torch.ones(3, 5, 7), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(torch.stack([layer(x), layer(x)]))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0][0], draws[0][1])


def test_off_when_told() -> None:
    """Fault: dropout while translating, or where its probability is 0; an empty batch ends in an error."""
    x = torch.randn(4, 6)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert Dropout(0.5)(x[:0]).shape == (0, 6)
