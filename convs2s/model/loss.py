"""The output layer and its cross-entropy in one pass that never holds all logits; perplexity.

N positions · C channels · V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from convs2s.model.layers import autocast_type

ROWS = 1024  # positions a piece; its logits, ROWS x V, are the only ones in memory


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats, infinite where that overflows."""
    return math.inf if loss > 700 else math.exp(loss)


class LinearCrossEntropy(torch.autograd.Function):
    """Summed negative log-likelihood of targets under softmax(hidden weight^T + bias), in nats.

    hidden (N, C), weight (V, C), bias (V,), targets (N,) ids; positions whose target is ``ignore`` do not count.
    The gradient of the logits, softmax - one-hot, is formed in place of the logits while they are at hand, so the
    softmax over a large vocabulary is computed once and costs no memory that grows with N. In fp16 it is formed before
    the loss is scaled: what is below 6e-8 in it is lost, which scaling saves in the other layers.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, ignore: int) -> Tensor:
        differentiate = any(ctx.needs_input_grad[:3])
        half = autocast_type(hidden)  # of the products; softmax and sums stay in the weights' type
        factor, loss = weight.to(half), hidden.new_zeros((), dtype=torch.float64)
        if differentiate:
            grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
            grad_bias = torch.zeros_like(bias)
        for start in range(0, len(hidden), ROWS):
            piece = slice(start, start + ROWS)
            rows, target = hidden[piece].to(half), targets[piece].unsqueeze(1)  # (n, C), (n, 1)
            logits = torch.addmm(bias.to(half), rows, factor.t()).to(weight.dtype)  # (n, V)
            counts = target != ignore  # (n, 1)
            logits -= logits.amax(1, keepdim=True)
            chosen = logits.gather(1, target)
            likelihoods = logits.exp_()
            total = likelihoods.sum(1, keepdim=True)
            loss += ((total.log() - chosen) * counts).sum(dtype=torch.float64)
            if differentiate:
                likelihoods *= counts / total
                likelihoods.scatter_add_(1, target, -counts.to(likelihoods.dtype))
                grad_bias += likelihoods.sum(0)
                grad_logits = likelihoods.to(half)
                grad_hidden[piece] = grad_logits @ factor
                grad_weight += grad_logits.t() @ rows
        if differentiate:
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return loss.to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, grad_bias * grad, None, None
