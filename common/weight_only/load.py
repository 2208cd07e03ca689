"""Loads quantised tensors into a network without a second copy in memory, and keeps what torch's int4 kernel wants of
them in files beside them.

It may not know which network it is.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.overrides import TorchFunctionMode

from common.weight_only.files import read_mapped
from common.weight_only.layers import linear_weights, put_in
from common.weight_only.modes import INT4, SCALES_SUFFIX
from common.weight_only.products import KernelLayout, packed_parts, packed_rows, packed_scales
from common.weight_only.stream import StreamedTensor, write_safetensors
from common.weight_only.weight import QuantisedWeight

_MADE_FROM = "outrider_made_from"
_LAYOUT_VERSION = 1
"""Of what we write into files of layouts."""

_Form = tuple[torch.dtype, tuple[int, ...]]
"""Dtype and shape of a tensor."""

Network = TypeVar("Network", bound=nn.Module)


def is_quantised(tensors: Mapping[str, torch.Tensor]) -> bool:
    return any(isinstance(each, QuantisedWeight) for each in tensors.values())


def without_weights(build: Callable[[], Network]) -> Network:
    """A network on the device `meta`, whose weights take neither memory nor time."""
    with torch.device("meta"), _DrawsNothing():
        return build()


def load_quantised(module: nn.Module, tensors: Mapping[str, torch.Tensor], like: torch.Tensor) -> None:
    """Gives `module`, which is on the device `meta`, these tensors, converted to device and dtype of `like` if they are
    not quantised.

    Raises RuntimeError for names or shapes that differ from the module's, ValueError for a quantised weight that is
    neither of a linear layer nor of an embedding.
    """
    quantised = {name: each for name, each in tensors.items() if isinstance(each, QuantisedWeight)}
    plain = {name: each.to(like) for name, each in tensors.items() if name not in quantised}
    absent, unexpected = module.load_state_dict(plain, strict=False, assign=True)
    wrong = [*unexpected, *(name for name in {*absent} ^ {*quantised})]
    if wrong:
        raise RuntimeError(f"the tensors of the network and of its file differ: {', '.join(wrong)}")
    put_in(module, quantised, like, _layouts(linear_weights(module, quantised)) if like.device.type == "cpu" else {})


def _layouts(weights: Mapping[str, QuantisedWeight]) -> dict[str, KernelLayout]:
    """The kernel layouts of int4 weights, by memory map. The first time, they are written beside the weights' file; if
    nothing can be written there, there are none, and each layer makes its own in memory."""
    by_file: dict[Path, dict[str, QuantisedWeight]] = {}
    for weight in weights.values():
        if weight.weights_mode == INT4 and weight.origin is not None:
            by_file.setdefault(weight.origin[0], {})[weight.origin[1]] = weight
    kept = {file: _kept_layouts(file, own) for file, own in by_file.items()}
    found = {}
    for name, weight in weights.items():
        layout = None if weight.origin is None else kept.get(weight.origin[0], {}).get(weight.origin[1])
        if layout is not None:
            found[name] = layout
    return found


def _kept_layouts(file: Path, weights: Mapping[str, QuantisedWeight]) -> dict[str, KernelLayout]:
    status = file.stat()
    # Which layout a kernel wants is not stated anywhere and may change with every torch.
    made_from = f"{status.st_size} {status.st_mtime_ns} {_LAYOUT_VERSION} torch {torch.__version__}"
    # A file for every set of weights that is used together: a draft of several depths runs one at a time.
    digest = sha256(" ".join(sorted(weights)).encode()).hexdigest()[:8]
    kept = file.with_name(f"{file.name}.{torch.backends.cpu.get_cpu_capability().lower()}-{digest}.layout")
    try:
        layouts = _read_layouts(kept, weights, made_from)
        if layouts is None:
            _write_layouts(kept, file, weights.keys(), made_from)
            layouts = _read_layouts(kept, weights, made_from)
    except OSError:
        layouts = None
    return layouts or {}


def _read_layouts(kept: Path, weights: Mapping[str, QuantisedWeight], made_from: str) -> dict[str, KernelLayout] | None:
    """None where there are none of these weights as they are now, for this torch. What is read has the shapes that the
    kernel expects, for it checks none."""
    if not kept.is_file():
        return None
    try:
        with safe_open(kept, framework="pt") as held:
            if (held.metadata() or {}).get(_MADE_FROM) != made_from:
                return None
            found = {name: (held.get_tensor(name), held.get_tensor(name + SCALES_SUFFIX)) for name in weights}
    except SafetensorError:
        return None
    fits = all((_form(packed), _form(scales)) == _forms(weights[name]) for name, (packed, scales) in found.items())
    return found if fits else None


def _form(tensor: torch.Tensor) -> _Form:
    return tensor.dtype, tuple(tensor.shape)


def _forms(weight: QuantisedWeight) -> tuple[_Form, _Form]:
    """Of the two halves of its kernel layout."""
    rows, groups = packed_rows(weight), weight.scales.shape[1]
    return (torch.uint8, (rows, weight.packed.shape[1])), (torch.bfloat16, (groups, rows, 2))


def _write_layouts(kept: Path, file: Path, names: Collection[str], made_from: str) -> None:
    # Mapped once more: pages that are read here take memory until this mapping ends.
    tensors, streamed = read_mapped(file), {}
    for name in names:
        weight = tensors[name]
        assert isinstance(weight, QuantisedWeight)
        numbers, scales = _forms(weight)
        streamed[name] = StreamedTensor(*numbers, _parts_of(weight))
        streamed[name + SCALES_SUFFIX] = StreamedTensor(*scales, _scales_of(weight))
    write_safetensors(kept, streamed, {_MADE_FROM: made_from})


def _parts_of(weight: QuantisedWeight) -> Callable[[], Any]:
    return lambda: packed_parts(weight)


def _scales_of(weight: QuantisedWeight) -> Callable[[], Sequence[torch.Tensor]]:
    return lambda: (packed_scales(weight),)


# Those of torch.nn.init are called with their tensor as a keyword, and nothing is asked about the methods inside.
_DRAWS = (torch.Tensor.uniform_, torch.Tensor.normal_, nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_)


class _DrawsNothing(TorchFunctionMode):
    """Leaves initial weights undrawn: drawing them on the device `meta` would import torch._dynamo."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if function in _DRAWS:
            return args[0] if args else given["tensor"]
        return function(*args, **given)
