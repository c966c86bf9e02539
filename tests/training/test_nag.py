"""The update rule and the clipping rule against the original's numbers."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import golden_arrays
from torch import Tensor, nn
from torch.testing import assert_close

from convs2s.training.nag import NAG, clip_gradients

TIGHT = {"rtol": 0.0, "atol": 1e-12}
ARRAYS = golden_arrays("nag_quadratic")
RUNS = sorted({key.partition(".step")[0] for key in ARRAYS if ".step" in key})
STEPS = 7
THRESHOLD = 0.1  # clip.out.* of norm 0.05 is untouched, every other has norm 0.1


def settings(run: str) -> tuple[float, float, float]:
    """Momentum, l2 and learning rate from a run's name, e.g. 'mom0.99_l20.01_lr0.25'."""
    match = re.fullmatch(r"mom([\d.]+)_l2([\d.]+)_lr([\d.]+)", run)
    assert match
    return float(match[1]), float(match[2]), float(match[3])


def gradient(x: Tensor) -> Tensor:
    """Of 0.5 x^T A x - b^T x."""
    return ARRAYS["A"] @ x - ARRAYS["b"]


def velocity(optimizer: NAG, x: Tensor) -> Tensor:
    found = optimizer.state[x]["velocity"]
    assert isinstance(found, Tensor)
    return found


def test_runs_are_there() -> None:
    """Fault: the golden file lost its runs, so that nothing below is compared."""
    assert len(RUNS) == 4
    assert {settings(run)[1] for run in RUNS} == {0.0, 0.01}


@pytest.mark.parametrize("run", RUNS)
def test_quadratic(run: str) -> None:
    """Fault: another Nesterov form, l2 added late, lr outside the velocity, velocity rescaled at the change."""
    momentum, l2, lr = settings(run)
    x = nn.Parameter(ARRAYS["x0"].clone())
    optimizer = NAG([x], lr=lr, momentum=momentum, weight_decay=l2)
    for step in range(1, STEPS + 1):
        if step == 6:
            optimizer.param_groups[0]["lr"] = lr / 10
        x.grad = gradient(x.detach())
        optimizer.step()
        assert_close(x.detach(), ARRAYS[f"{run}.step{step}.x"], **TIGHT)
        assert_close(velocity(optimizer, x), ARRAYS[f"{run}.step{step}.velocity"], **TIGHT)


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("run", RUNS)
def test_resuming_changes_nothing(run: str, rescale: bool) -> None:
    """Fault: state_dict lacks the velocity, or the last learning rate that rescaling needs."""
    momentum, l2, lr = settings(run)
    results = []
    for save_after in (None, 1, 5):
        x = nn.Parameter(ARRAYS["x0"].clone())
        optimizer = NAG([x], lr=lr, momentum=momentum, weight_decay=l2, rescale_velocity=rescale)
        for step in range(1, STEPS + 1):
            if step == 6:
                optimizer.param_groups[0]["lr"] = lr / 10
            x.grad = gradient(x.detach())
            optimizer.step()
            if step == save_after:
                saved = optimizer.state_dict()
                x = nn.Parameter(x.detach().clone())
                optimizer = NAG([x], lr=1.0, momentum=0.5, rescale_velocity=rescale)
                optimizer.load_state_dict(saved)
        results.append(x.detach())
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("run", RUNS)
def test_rescaled_velocity(run: str) -> None:
    """Fault: rescale_velocity does nothing, acts at every step, or scales by another factor than the rates'."""
    momentum, l2, lr = settings(run)
    x = nn.Parameter(ARRAYS["x0"].clone())
    optimizer = NAG([x], lr=lr, momentum=momentum, weight_decay=l2, rescale_velocity=True)
    expected, speed = ARRAYS["x0"].clone(), torch.zeros(5, dtype=torch.float64)
    for step in range(1, STEPS + 1):
        if step == 6:
            lr /= 10
            speed = speed / 10
            optimizer.param_groups[0]["lr"] = lr
        x.grad = gradient(x.detach())
        optimizer.step()
        g = gradient(expected) + l2 * expected
        expected = expected + momentum**2 * speed - (1 + momentum) * lr * g
        speed = momentum * speed - lr * g
        assert_close(x.detach(), expected, **TIGHT)
        assert_close(velocity(optimizer, x), speed, **TIGHT)
    if momentum:
        assert float((x.detach() - ARRAYS[f"{run}.step{STEPS}.x"]).abs().max()) > 1e-3


def test_two_parameters_are_independent() -> None:
    """Fault: velocities are shared, or a parameter without gradient is moved."""
    values = torch.arange(3, dtype=torch.float64)
    first, second, third = (nn.Parameter(values.clone()) for _ in range(3))
    optimizer = NAG([first, second, third], lr=0.5, momentum=0.9)
    for _ in range(2):
        first.grad, second.grad = torch.ones(3, dtype=torch.float64), torch.full((3,), -2.0, dtype=torch.float64)
        optimizer.step()
    # v1 = -lr g; x = -(1+m) lr g + m^2 v1 - (1+m) lr g
    moved = -2 * 1.9 * 0.5 - 0.81 * 0.5
    assert_close(first.detach(), values + moved, **TIGHT)
    assert_close(second.detach(), values - 2 * moved, **TIGHT)
    assert_close(third.detach(), values, **TIGHT)


@pytest.mark.parametrize("case", [1, 2, 3, 4])
def test_clipping(case: int) -> None:
    """Fault: a norm per tensor, an epsilon beside the norm, small gradients scaled up, or the norm after clipping."""
    given, expected = ARRAYS[f"clip.in.{case}"], ARRAYS[f"clip.out.{case}"]
    parameters = [nn.Parameter(torch.zeros(size, dtype=torch.float64)) for size in (1, 2, 3)]
    untouched = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    for parameter, part in zip(parameters, given.split([1, 2, 3]), strict=True):
        parameter.grad = part.clone()
    norm = clip_gradients([parameters[0], untouched, *parameters[1:]], THRESHOLD)
    assert float(norm) == pytest.approx(float(given.norm()), rel=1e-12)
    found = torch.cat([parameter.grad for parameter in parameters if parameter.grad is not None])
    assert_close(found, expected, **TIGHT)
    assert untouched.grad is None


def test_an_infinite_norm_scales_nothing() -> None:
    """Fault: maximum / inf turns finite gradients into 0 and infinite ones into nan before they are written down."""
    parameters = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 4.0]), torch.tensor([float("inf"), 1.0])
    assert clip_gradients(parameters, 0.1) == float("inf")
    assert parameters[0].grad.tolist() == [3.0, 4.0]
    assert parameters[1].grad.tolist() == [float("inf"), 1.0]
