"""Experts whose products have whole blocks of rows: how many rows an expert gets is for its router to say, and kernels
may round one row of a few otherwise than the same row of many.

It may not know which multiple is needed (`batch_invariance.py`), nor passes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, pad
from torch.overrides import TorchFunctionMode

_PRODUCTS = (linear, torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


class WholeBlocks(TorchFunctionMode):
    """Within it products of `[rows, features]` are computed with rows of zeros behind them, up to a multiple."""

    def __init__(self, multiple: int):
        super().__init__()
        self._multiple = multiple

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _PRODUCTS or not args or args[0].dim() != 2:
            return func(*args, **kwargs)
        rows = args[0]
        filled = pad(rows, (0, 0, 0, -len(rows) % self._multiple))
        return func(filled, *args[1:], **kwargs)[: len(rows)]


def experts_of(model: nn.Module) -> Iterator[nn.Module]:
    """The modules of mixtures that hold the weights of all their experts, as parameters of three dimensions."""
    for module in model.modules():
        if any(each.dim() == 3 and each.is_floating_point() for each in module.parameters(recurse=False)):
            yield module


def compute_whole_blocks(model: nn.Module, multiple: int) -> None:
    """From now on this model's experts, which must be eager, compute products of a multiple of so many rows."""
    for module in experts_of(model) if multiple > 1 else ():
        module.forward = _InWholeBlocks(module.forward, multiple)


def undo_whole_blocks(model: nn.Module) -> None:
    for module in experts_of(model):
        if isinstance(module.forward, _InWholeBlocks):
            module.forward = module.forward.forward


class _InWholeBlocks:
    def __init__(self, forward: Callable[..., Any], multiple: int):
        self.forward = forward
        self._multiple = multiple

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with WholeBlocks(self._multiple):
            return self.forward(*args, **kwargs)
