"""A GPU that is pretended on the CPU, so that machines without one find tensors that are left on the wrong device.

Tensors that would be on it carry a mark, say so when they are asked for their device, and give it to what is computed
of them. An operation over tensors of both devices, which a GPU refuses, raises `MixedDevicesError`, and so does a view
of such a tensor in numpy. A tensor in float64 raises `TypeError` where it is Apple's GPU that is pretended, as there.
Values are those of a CPU: kernels, their dtypes besides that and their speed are not pretended.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from common.models import attention_kernels
from common.models.checkpoint import load_causal_lm

GPU = torch.device("cuda", 0)
MPS = torch.device("mps")
_CPU = torch.device("cpu")
_MARK = "_is_on_pretended_gpu"
_CROSSING = {"to", "copy_", "__get__", "__set__", "__getitem__", "__setitem__", "_has_compatible_shallow_copy_type"}
"""What may name tensors of both devices: copies, and indices that lie on the CPU."""


class MixedDevicesError(RuntimeError):
    pass


class _PretendedGpu(TorchFunctionMode):
    def __init__(self, device: torch.device):
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func == torch.Tensor.device.__get__:  # type: ignore[attr-defined]
            return self._device if is_on_gpu(args[0]) else func(*args)
        if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return is_on_gpu(args[0]) and self._device.type == "cuda"
        name = getattr(func, "__name__", str(func))
        given = _tensors(args, kwargs or {})
        self._check(name, args, given)
        wanted, args, own = self._without_gpu(name, args, dict(kwargs or {}))
        out = func(*args, **own)
        first = args[0] if args else None
        if name in ("__set__", "__setitem__", "copy_"):
            if func == torch.Tensor.data.__set__ and is_on_gpu(args[1]):  # type: ignore[attr-defined]
                setattr(first, _MARK, True)
            return out
        onto = any(map(is_on_gpu, given)) if wanted is None else wanted == self._device
        if onto and self._device.type == "mps" and any(each.dtype == torch.float64 for each in _tensors(out)):
            raise TypeError("the MPS framework doesn't support float64")
        if isinstance(first, torch.Tensor) and out is first and onto != is_on_gpu(first):
            out = first.detach().clone()  # a move to another device is a copy
        for tensor in _tensors(out):
            setattr(tensor, _MARK, onto)
        return out

    def _check(self, name: str, args: tuple[Any, ...], tensors: Sequence[torch.Tensor]) -> None:
        here, there = ([each for each in tensors if is_on_gpu(each) is side] for side in (False, True))
        if there and name in ("numpy", "__array__"):
            raise MixedDevicesError(f"{name}() of a tensor on a GPU")
        # Values may be copied over; indices lie where what they index does, or on the CPU.
        if name in ("__getitem__", "__setitem__") and not is_on_gpu(args[0]) and any(map(is_on_gpu, _tensors(args[1]))):
            raise MixedDevicesError(f"{name} of a tensor on the CPU with one on a GPU")
        # Numbers, which are tensors without dimensions, may come from a CPU.
        if there and name not in _CROSSING and any(each.dim() for each in here):
            raise MixedDevicesError(f"{name} of shapes {[(*each.shape, str(each.device)) for each in tensors]}")

    def _without_gpu(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[torch.device | None, tuple[Any, ...], dict[str, Any]]:
        """The device that a call asks for, if any, and its arguments with the CPU in place of the GPU."""
        wanted = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        if name == "cpu":
            wanted = _CPU
        if name == "to":
            named = [torch.device(each) for each in args[1:] if isinstance(each, torch.device | str)]
            like = [self._device if is_on_gpu(each) else _CPU for each in args[1:] if isinstance(each, torch.Tensor)]
            wanted = next(iter((*named, *like)), wanted)
        if wanted is None or wanted.type != self._device.type:
            return wanted, args, kwargs
        args = tuple(_CPU if isinstance(each, torch.device | str) else each for each in args)
        return self._device, args, {key: _CPU if key == "device" else value for key, value in kwargs.items()}


def is_on_gpu(tensor: torch.Tensor) -> bool:
    return bool(tensor.__dict__.get(_MARK, False))


def _tensors(*values: Any) -> list[torch.Tensor]:
    """Those in `values`. Not by torch's own trees of any classes: a pass calls this a thousand times."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, tuple | list):
            found += _tensors(*value)
        elif isinstance(value, dict):
            found += _tensors(*value.values())
    return found


@contextmanager
def pretended_gpu(monkeypatch: pytest.MonkeyPatch, device: torch.device = GPU) -> Iterator[None]:
    """Inside the block this process has a GPU, `GPU` or `MPS`, that takes everything for the CPU's kernels. Weights
    that transformers loads are moved to it by `load_on_cpu_first`."""
    make = torch.Tensor._make_subclass

    def make_marked(cls: Any, data: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        made: torch.Tensor = make(cls, data, *rest, **named)
        setattr(made, _MARK, is_on_gpu(data))
        return made

    with monkeypatch.context() as patch, _PretendedGpu(device):
        patch.setattr(torch.Tensor, "_make_subclass", staticmethod(make_marked))
        if device == MPS:
            patch.setattr("torch.backends.mps.is_available", lambda: True)
        else:
            _pretend_cuda(patch)
        yield


def _pretend_cuda(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("torch.cuda.is_available", lambda: True)
    patch.setattr("torch.cuda.device_count", lambda: 1)
    patch.setattr("torch.cuda.mem_get_info", lambda *_: (1 << 36, 1 << 36))
    patch.setattr("torch.cuda.get_device_capability", lambda *_: (9, 0))
    patch.setattr("torch.cuda.is_bf16_supported", lambda *_, **__: True)
    patch.setattr("torch.cuda.get_device_name", lambda *_: "a pretended GPU")
    patch.setattr("torch.cuda.synchronize", lambda *_: None)
    patch.setattr(attention_kernels, "_fused_on_cuda", _fused)


def load_on_cpu_first(path: str | Path, device: str = "cpu", *rest: Any, **named: Any) -> Any:
    """`load_causal_lm`, outside the pretence as far as transformers loads: it builds models in modes of its own."""
    if torch.device(device).type == "cpu":
        return load_causal_lm(path, device, *rest, **named)
    mode = _pop_mode()
    try:
        model: Any = load_causal_lm(path, "cpu", *rest, **named)
    finally:
        _push_mode(mode)
    return torch.nn.Module.to(model, torch.device(device))


def _fused(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    bias = None if mask is None else mask.expand(*query.shape[:2], *mask.shape[2:])
    fused: Callable[..., tuple[torch.Tensor, torch.Tensor]] = attention_kernels._fused_on_cpu
    return fused(query, key, value, bias, scaling)
