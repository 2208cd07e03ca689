"""What a file takes in memory, from its header alone, is what its tensors take."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from common.weight_only.files import quantise_file, read_mapped
from common.weight_only.modes import AS_IS, INT4, INT8, MODES, QUANTISED, check_weights
from common.weight_only.needs import (
    LENGTH_BYTES,
    StoredTensor,
    header_length,
    last_layers,
    memory_bytes,
    number_bytes,
    read_header,
)
from common.weight_only.weight import QuantisedWeight

TENSORS = {
    "model.embed_tokens.weight": torch.zeros(130, 40),
    "lm_head.weight": torch.zeros(130, 40),
    "model.layers.0.q_proj.weight": torch.zeros(48, 64),
    "model.norm.weight": torch.zeros(40),
    "kept_tokens": torch.zeros(9, dtype=torch.int64),
}


def header(file: Path) -> dict[str, StoredTensor]:
    data = file.read_bytes()
    return read_header(data[LENGTH_BYTES : LENGTH_BYTES + header_length(data)])


def bytes_of(tensor: torch.Tensor) -> int:
    parts = (tensor.packed, tensor.scales) if isinstance(tensor, QuantisedWeight) else (tensor,)
    return sum(part.numel() * part.itemsize for part in parts)


@pytest.mark.parametrize("mode", QUANTISED)
def test_told_of_the_plain_file_and_of_the_quantised_one(tmp_path: Path, mode: str) -> None:
    save_file(TENSORS, tmp_path / "plain.safetensors")
    quantise_file(tmp_path / "plain.safetensors", mode, tmp_path / "few.safetensors")
    held = read_mapped(tmp_path / "few.safetensors")
    loaded = sum(bytes_of(tensor) for name, tensor in held.items() if "embed_tokens" not in name)
    told = memory_bytes(header(tmp_path / "plain.safetensors"), mode, 4)
    assert told == loaded
    of_quantised = memory_bytes(header(tmp_path / "few.safetensors"), mode, 4)
    assert 0 <= of_quantised - told < 5 * 64 + bytes_of(held["model.embed_tokens.weight"])


def test_as_they_are_numbers_take_what_the_dtype_does(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "plain.safetensors")
    floats = sum(each.numel() for each in TENSORS.values() if each.is_floating_point())
    for dtype, width in (("float32", 4), ("bfloat16", 2), ("float64", 8)):
        assert number_bytes(dtype) == width
        assert memory_bytes(header(tmp_path / "plain.safetensors"), AS_IS, width) == floats * width + 9 * 8


def test_a_tied_embedding_counts_once_as_the_head() -> None:
    shapes = {"model.embed_tokens.weight": StoredTensor("F32", (128, 64))}
    assert memory_bytes(shapes, INT8, 4) == 128 * 64 + 2 * 128
    assert memory_bytes(shapes, INT4, 4) == 128 * 64 // 2 + 2 * 2 * 128 * 2


def test_layers_that_are_not_run_do_not_count() -> None:
    tensors = {f"model.layers.{layer}.w.weight": StoredTensor("F32", (layer + 1,)) for layer in range(3)}
    tensors["norm.weight"] = StoredTensor("F32", (1,))
    assert sorted(last_layers(tensors, 1)) == ["model.layers.2.w.weight", "norm.weight"]
    assert sorted(last_layers(tensors, 0)) == ["norm.weight"]
    assert last_layers(tensors, 3) == tensors


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"a": 3}', b'{"a": {"dtype": "F32"}}', b'{"a": {"dtype": 1, "shape": 2}}']
    + [
        b'{"a": {"dtype": "F32", "shape": [%s]}}' % shape
        for shape in (b"Infinity", b"NaN", b"1.5", b"true", b"-1", b"9" * 400, b"-4, -4", b"16777216, 16777217")
    ],
)
def test_what_is_no_header_is_told(data: bytes) -> None:
    with pytest.raises(ValueError, match="no header"):
        read_header(data)


def test_the_modes() -> None:
    for mode in MODES:
        check_weights(mode)
    with pytest.raises(Exception, match="weights cannot be loaded as 'int3'; choose from: as-is, int8, int4"):
        check_weights("int3")


def test_a_layer_with_a_number_that_none_has_is_no_layer() -> None:
    """int() refuses thousands of digits."""
    tensors = {f"model.layers.{'9' * 5000}.w.weight": StoredTensor("F32", (1,))}
    assert last_layers(tensors, 0) == tensors
