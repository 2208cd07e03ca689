"""Quantised files: the originals' tensors quantised, mapped, and refused where a kernel would read beyond their end."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from common.protocol.errors import MisuseError
from common.weight_only.files import dequantise_directory, mode_of, quantise_directory, quantise_file, read_mapped
from common.weight_only.modes import INT4, INT8, QUANTISED
from common.weight_only.stream import ALIGNMENT_BYTES, StreamedTensor, write_safetensors
from common.weight_only.weight import QuantisedWeight, quantise


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    tensors = {
        "model.embed_tokens.weight": torch.randn(1301, 40),
        "layer.q_proj.weight": torch.randn(48, 64, dtype=torch.bfloat16),
        "layer.q_proj.bias": torch.randn(48),
        "layer.mlp.gate.weight": torch.randn(64, 64),
        "norm.weight": torch.randn(64),
        "kept_tokens": torch.arange(7),
        "layer.attention.masked_bias": torch.tensor(-1e9),  # GPT-NeoX stores numbers without dimensions
        "layer.attention.is_causal": torch.tensor(True),
    }
    save_file(tensors, tmp_path / "plain.safetensors", metadata={"format": "pt"})
    return tmp_path / "plain.safetensors"


@pytest.mark.parametrize("mode", QUANTISED)
def test_matrices_are_quantised_and_all_else_is_as_it_was(plain: Path, tmp_path: Path, mode: str) -> None:
    quantise_file(plain, mode, tmp_path / "few.safetensors")
    original, held = load_file(plain), read_mapped(tmp_path / "few.safetensors")
    assert held.keys() == original.keys()
    few = {name for name, tensor in held.items() if isinstance(tensor, QuantisedWeight)}
    assert few == {"model.embed_tokens.weight", "layer.q_proj.weight"}  # a router of experts stays
    for name, tensor in held.items():
        if isinstance(tensor, QuantisedWeight):
            expected = quantise(original[name], mode)
            assert torch.equal(tensor.packed, expected.packed)
            assert torch.equal(tensor.scales, expected.scales)
            assert tensor.packed.data_ptr() % ALIGNMENT_BYTES == 0
        else:
            assert torch.equal(tensor, original[name])
    assert (mode_of(plain), mode_of(tmp_path / "few.safetensors")) == (None, mode)
    assert load_file(tmp_path / "few.safetensors").keys() >= original.keys()  # the format is safetensors' own


@pytest.mark.parametrize("mode", QUANTISED)
@pytest.mark.parametrize("again", QUANTISED)
def test_what_is_quantised_is_not_quantised_again(plain: Path, tmp_path: Path, mode: str, again: str) -> None:
    few, fewer = tmp_path / "few.safetensors", tmp_path / "fewer.safetensors"
    quantise_file(plain, mode, few)
    with pytest.raises(MisuseError, match=rf"few\.safetensors is quantised already, as {mode}: quantise the file"):
        quantise_file(few, again, fewer)
    assert not fewer.exists()


def test_numbers_stay_in_the_mapped_file(plain: Path, tmp_path: Path) -> None:
    quantise_file(plain, INT8, tmp_path / "few.safetensors")
    weight = read_mapped(tmp_path / "few.safetensors")["model.embed_tokens.weight"]
    assert isinstance(weight, QuantisedWeight)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    ranges = [line.split()[0].split("-") for line in maps if line.endswith("few.safetensors")]
    assert any(int(start, 16) <= weight.packed.data_ptr() < int(end, 16) for start, end in ranges)


def test_a_plain_copy_holds_the_dequantised_weights(plain: Path, tmp_path: Path) -> None:
    for folder in ("in/tail", "in", "few/tail/out"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("in/tail", "in"):
        (tmp_path / folder / "model.safetensors").write_bytes(plain.read_bytes())
        (tmp_path / folder / "config.json").write_text("{}")
    quantise_directory(tmp_path / "in", INT4, tmp_path / "few")
    out = tmp_path / "few" / "tail" / "out"  # a folder inside is not copied into itself
    dequantise_directory(tmp_path / "few" / "tail", out)
    assert {file.name for file in out.iterdir()} == {"config.json", "model.safetensors"}
    original, back = load_file(plain), load_file(out / "model.safetensors")
    assert (out / "config.json").read_text() == "{}"
    name = "layer.q_proj.weight"
    assert torch.equal(back[name], quantise(original[name], INT4).dequantised(torch.bfloat16))
    for name in ("layer.q_proj.bias", "layer.attention.masked_bias", "layer.attention.is_causal"):
        assert torch.equal(back[name], original[name])


@pytest.mark.parametrize("mode", QUANTISED)
def test_numbers_that_another_writer_did_not_align_are_copied(tmp_path: Path, mode: str) -> None:
    weight = quantise(torch.randn(48, 64), mode)
    metadata = {"outrider_weights": mode, "outrider_columns": json.dumps({"b.weight": 64})}
    tensors = {"a": torch.zeros(1, dtype=torch.uint8), "b.weight": weight.packed, "b.weight.scales": weight.scales}
    makes = {name: StreamedTensor(each.dtype, each.shape, lambda each=each: [each]) for name, each in tensors.items()}
    write_safetensors(tmp_path / "x.safetensors", makes, metadata)
    raw = (tmp_path / "x.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    shifted = raw[8 : 8 + length] + b" "
    (tmp_path / "x.safetensors").write_bytes(len(shifted).to_bytes(8, "little") + shifted + raw[8 + length :])
    held = read_mapped(tmp_path / "x.safetensors")["b.weight"]
    assert isinstance(held, QuantisedWeight)
    assert held.packed.data_ptr() % ALIGNMENT_BYTES == 0
    assert torch.equal(held.packed, weight.packed)


@pytest.mark.parametrize(
    ("columns", "packed", "scales"),
    [
        (64, (48, 64), (47,)),
        (65, (48, 64), (48,)),
        (0, (48, 64), (48,)),
        ("64", (48, 64), (48,)),
        (64, (48 * 64,), (48,)),
        (64, (48, 64), (48, 1)),
    ],
)
def test_sizes_that_do_not_fit_each_other_are_refused(tmp_path: Path, columns, packed, scales) -> None:
    tensors = {"w.weight": torch.zeros(packed, dtype=torch.int8), "w.weight.scales": torch.ones(scales).bfloat16()}
    metadata = {"outrider_weights": INT8, "outrider_columns": json.dumps({"w.weight": columns})}
    save_file(tensors, tmp_path / "x.safetensors", metadata=metadata)
    with pytest.raises(ValueError, match="not quantised as int8"):
        read_mapped(tmp_path / "x.safetensors")


def test_scales_that_are_missing_are_refused(tmp_path: Path) -> None:
    metadata = {"outrider_weights": INT8, "outrider_columns": json.dumps({"w.weight": 64})}
    save_file({"w.weight": torch.zeros(48, 64, dtype=torch.int8)}, tmp_path / "x.safetensors", metadata=metadata)
    with pytest.raises(ValueError, match=r"does not hold 'w\.weight'"):
        read_mapped(tmp_path / "x.safetensors")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    short = {"a": StreamedTensor(torch.uint8, (8,), lambda: [torch.zeros(7, dtype=torch.uint8)])}
    with pytest.raises(OSError, match="as long as its tensors"):
        write_safetensors(tmp_path / "x.safetensors", short, {})
    assert not list(tmp_path.iterdir())
