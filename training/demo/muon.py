"""Muon: momentum whose update is made orthogonal, for the matrices inside a network.

What may live here: the optimiser alone. torch.optim.Muon iterates in bfloat16 whatever the processor, which on one that
has no instructions for it takes fifty times as long as the rest of a step; this one iterates in a dtype of choice.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon), with Nesterov momentum, decoupled decay.

    `matrices`: parameters of two dimensions. The update of one of R rows and C columns is scaled by
    sqrt(max(1, R / C)).
    """

    def __init__(
        self,
        matrices: Iterable[torch.nn.Parameter],
        lr: float,
        weight_decay: float,
        dtype: torch.dtype,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                mean = state.setdefault("momentum_buffer", torch.zeros_like(matrix))
                mean.lerp_(matrix.grad, 1 - group["momentum"])
                update = orthogonalised(matrix.grad.lerp(mean, group["momentum"]), self._dtype)
                rows, columns = matrix.shape
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonalised(matrix: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`matrix` [R, C] with all singular values moved to about 1 (0.7 to 1.2), by a Newton-Schulz iteration."""
    a, b, c = _COEFFICIENTS
    wide = matrix.to(dtype)
    if wide.shape[0] > wide.shape[1]:
        wide = wide.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return (wide.T if matrix.shape[0] > matrix.shape[1] else wide).to(matrix.dtype)
