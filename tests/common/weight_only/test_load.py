"""Networks on quantised weights, and the files that keep what the int4 kernel wants."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from common.weight_only.files import quantise_file, read_mapped
from common.weight_only.layers import QuantisedEmbedding, QuantisedLinear
from common.weight_only.load import load_quantised, without_weights
from common.weight_only.modes import INT4, INT8, QUANTISED


class Network(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(70, 40)
        self.norm = nn.LayerNorm(40)
        self.head = nn.Linear(40, 70)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.norm(self.embedding(tokens)))
        return out


TOKENS = torch.tensor([[1, 5, 69]])


def write(folder: Path, mode: str, seed: int = 0) -> Path:
    save_file(Network(seed).state_dict(), folder / "plain.safetensors")
    quantise_file(folder / "plain.safetensors", mode, folder / "few.safetensors")
    return folder / "few.safetensors"


def load(file: Path) -> Network:
    network = without_weights(Network)
    load_quantised(network, read_mapped(file), torch.empty(0))
    return network


def layouts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.layout"))


@pytest.mark.parametrize("mode", QUANTISED)
def test_layers_are_quantised_and_the_network_computes_nearly_the_same(tmp_path: Path, mode: str) -> None:
    network = load(write(tmp_path, mode))
    assert isinstance(network.head, QuantisedLinear)
    assert isinstance(network.embedding, QuantisedEmbedding)
    assert network.norm.weight.device.type == "cpu"
    correlation = torch.corrcoef(torch.stack([network(TOKENS).flatten(), Network()(TOKENS).flatten()]))[0, 1]
    assert correlation > {INT8: 0.999, INT4: 0.98}[mode]


def test_the_kernels_layout_is_written_once(tmp_path: Path) -> None:
    file = write(tmp_path, INT4)
    first = load(file)(TOKENS)
    (kept,) = layouts(tmp_path)
    written = kept.stat().st_mtime_ns
    assert torch.equal(load(file)(TOKENS), first)
    assert kept.stat().st_mtime_ns == written
    write(tmp_path / ".", INT8)
    load(tmp_path / "few.safetensors")
    assert layouts(tmp_path) == [kept]  # int8 needs none


def test_a_layout_of_other_weights_is_written_anew(tmp_path: Path) -> None:
    file = write(tmp_path, INT4)
    load(file)
    write(tmp_path, INT4, seed=1)
    os.utime(file, ns=(1, 1))
    again = load(file)(TOKENS)
    for kept in layouts(tmp_path):
        kept.unlink()
    assert torch.equal(again, load(file)(TOKENS))


@pytest.mark.parametrize("content", [b"", b"no header", b"\xff" * 64])
def test_a_broken_layout_is_written_anew(tmp_path: Path, content: bytes) -> None:
    file = write(tmp_path, INT4)
    expected = load(file)(TOKENS)
    (kept,) = layouts(tmp_path)
    kept.write_bytes(content)
    assert torch.equal(load(file)(TOKENS), expected)
    assert kept.stat().st_size > 64


def change(kept: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Puts these tensors into a file of layouts."""
    with safe_open(kept, framework="pt") as held:
        metadata = held.metadata()
        content = {name: held.get_tensor(name).clone() for name in held.keys()}  # noqa: SIM118
    save_file({**content, **tensors}, kept, metadata)


def test_a_layout_of_another_torch_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, INT4)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "__version__", "2.0.0")
        expected = load(file)(TOKENS)
        (kept,) = layouts(tmp_path)
        with safe_open(kept, framework="pt") as held:
            packed = held.get_tensor("head.weight")
        change(kept, {"head.weight": packed.flip(0).contiguous()})  # as if it packed in another order
        assert not torch.equal(load(file)(TOKENS), expected)  # which the same torch would read
    assert torch.equal(load(file)(TOKENS), expected)
    assert layouts(tmp_path) == [kept]


@pytest.mark.parametrize(
    "tensors",
    [
        {"head.weight": torch.zeros(80, 16, dtype=torch.uint8)},
        {"head.weight": torch.zeros(80, 32, dtype=torch.int8)},
        {"head.weight.scales": torch.zeros(2, 64, 2, dtype=torch.bfloat16)},
        {"head.weight.scales": torch.zeros(2, 80, 2)},
    ],
)
def test_a_layout_beyond_whose_end_the_kernel_would_read_is_written_anew(
    tmp_path: Path, tensors: dict[str, torch.Tensor]
) -> None:
    file = write(tmp_path, INT4)
    expected = load(file)(TOKENS)
    (kept,) = layouts(tmp_path)
    change(kept, tensors)
    assert torch.equal(load(file)(TOKENS), expected)


def test_where_nothing_can_be_written_the_layout_is_made_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, INT4)
    expected = load(file)(TOKENS)
    for kept in layouts(tmp_path):
        kept.unlink()

    def refuse(*_: object) -> None:
        raise OSError("a folder that is read only")

    monkeypatch.setattr("common.weight_only.load.write_safetensors", refuse)
    assert torch.equal(load(file)(TOKENS), expected)
    assert not layouts(tmp_path)


def test_other_tensors_than_the_networks_are_refused(tmp_path: Path) -> None:
    tensors = read_mapped(write(tmp_path, INT8))
    for wrong in ({**tensors, "strange.weight": tensors["head.weight"]}, {"head.bias": tensors["head.bias"]}):
        with pytest.raises(RuntimeError, match="differ"):
            load_quantised(without_weights(Network), wrong, torch.empty(0))


def test_a_quantised_norm_is_refused(tmp_path: Path) -> None:
    tensors = read_mapped(write(tmp_path, INT8))
    with pytest.raises(ValueError, match="no weight of a linear layer"):
        load_quantised(without_weights(Network), {**tensors, "norm.weight": tensors["head.weight"]}, torch.empty(0))


def test_a_network_without_weights_draws_none() -> None:
    """Drawing on the device `meta` would import torch._dynamo, which takes seconds."""
    code = (
        "import sys; from torch import nn; from common.weight_only.load import without_weights\n"
        "network = without_weights(lambda: nn.Sequential(nn.Linear(4, 4), nn.Embedding(3, 4)))\n"
        "print({each.device.type for each in network.parameters()}, 'torch._dynamo' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "{'meta'} False\n"
