"""Nesterov's accelerated gradient and gradient renormalisation, as the original takes them (optim/nag.lua)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class NAG(torch.optim.Optimizer):
    """x += m^2 v - (1 + m) lr g;  v = m v - lr g,  with g the gradient plus weight_decay times x.

    The learning rate is inside the velocity, and a change of the rate leaves the velocity alone: after an annealing
    step the larger old velocity keeps acting, as in the original. ``rescale_velocity`` scales it with the rate, as
    the authors' PyTorch release does.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.99,
        weight_decay: float = 0.0,
        rescale_velocity: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "rescale_velocity": rescale_velocity,
            "velocity_lr": lr,  # the rate that the velocity was last updated with
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient; ``closure`` is not supported."""
        if closure is not None:
            raise ValueError("NAG evaluates the gradient once a step: a closure is not supported")
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [p.grad for p in params]
            for p in params:
                if "velocity" not in self.state[p]:
                    self.state[p]["velocity"] = torch.zeros_like(p)
            velocities = [self.state[p]["velocity"] for p in params]
            lr, momentum = group["lr"], group["momentum"]
            if group["rescale_velocity"] and group["velocity_lr"] != lr:
                torch._foreach_mul_(velocities, lr / group["velocity_lr"])
            group["velocity_lr"] = lr
            if group["weight_decay"]:
                grads = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
            torch._foreach_add_(params, velocities, alpha=momentum * momentum)
            torch._foreach_add_(params, grads, alpha=-(1.0 + momentum) * lr)
            torch._foreach_mul_(velocities, momentum)
            torch._foreach_add_(velocities, grads, alpha=-lr)


def clip_gradients(parameters: Iterable[Tensor], maximum: float) -> float:
    """Scale all gradients so that their joint 2-norm is at most ``maximum`` (0: no limit); returns the norm before.

    The factor is exactly maximum / norm (original: ResumableDPOptimEngine; no epsilon in the denominator).
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
    if 0 < maximum < norm < math.inf:  # an infinite one would turn every gradient into 0 or nan
        torch._foreach_mul_(grads, maximum / norm)
    return norm
