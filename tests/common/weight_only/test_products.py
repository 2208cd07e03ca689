"""Products by each kernel are those of the dequantised weight, up to what the kernel rounds."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from common.weight_only import products
from common.weight_only.files import quantise_file, read_mapped
from common.weight_only.modes import INT4, INT8, QUANTISED
from common.weight_only.products import kernel_layout, make_product, multiplies_integers
from common.weight_only.weight import QuantisedWeight, quantise

CPU = torch.device("cpu")
SIZES = [(48, 64), (300, 192), (33, 70), (17, 33), (1100, 40)]
INTEGERS = pytest.mark.skipif(not multiplies_integers(), reason="this processor has no VNNI")


@pytest.fixture(params=["bfloat16", pytest.param("integers", marks=INTEGERS)])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What int8 is multiplied by."""
    monkeypatch.setattr(products, "multiplies_integers", lambda: request.param == "integers")
    monkeypatch.setattr(products, "_INT8_ROWS_AT_ONCE", 128)
    return str(request.param)


@pytest.mark.parametrize("mode", QUANTISED)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_product_with_the_dequantised_weight(
    kernels: str, mode: str, size: tuple[int, int], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    weight = quantise(torch.randn(size), mode)
    plain = weight.dequantised(torch.float64)
    product = make_product(weight, CPU)
    for rows in (1, 3, 8, 65):
        # Rows of very different lengths, each of which has a scale of its own.
        x = (torch.randn(rows, size[1]) * torch.logspace(-3, 3, rows)[:, None]).to(dtype)
        out = product(x)
        assert (out.dtype, out.shape) == (dtype, (rows, size[0]))
        expected = x.double() @ plain.T
        if kernels == "integers" and mode == INT8:
            off = x.double().abs().amax(dim=1, keepdim=True) / 254 * plain.abs().sum(dim=1)
        else:  # activations are rounded to bfloat16
            off = 2.0**-8 * (x.double().abs() @ plain.abs().T)
        assert bool(((out.double() - expected).abs() <= 1.001 * off + 2.0**-7 * expected.abs()).all())


@pytest.mark.parametrize("mode", QUANTISED)
def test_a_product_with_some_rows_is_those_of_the_whole(kernels: str, mode: str) -> None:
    weight, kept = quantise(torch.randn(300, 64), mode), torch.arange(0, 300, 2)
    x = torch.randn(4, 64)
    torch.testing.assert_close(make_product(weight, CPU, kept)(x), make_product(weight, CPU)(x)[:, kept])


@INTEGERS
def test_integers_do_not_saturate() -> None:
    weight = quantise(torch.ones(64, 4096), INT8)
    assert bool((make_product(weight, CPU)(torch.ones(1, 4096)) - 4096).abs().max() < 4096 / 256)


def test_rows_of_zeros_give_zeros(kernels: str) -> None:
    assert not make_product(quantise(torch.randn(48, 64), INT8), CPU)(torch.zeros(2, 64)).any()


def test_a_layout_that_is_given_is_used() -> None:
    one, other = (quantise(torch.randn(48, 64), INT4) for _ in range(2))
    x = torch.randn(1, 64)
    assert torch.equal(make_product(one, CPU, layout=kernel_layout(other))(x), make_product(other, CPU)(x))


def read(file: Path, seed: int) -> QuantisedWeight:
    """A weight in a file, which is written anew."""
    torch.manual_seed(seed)
    save_file({"head.weight": torch.randn(100 + seed, 64)}, file.with_suffix(".plain"))
    quantise_file(file.with_suffix(".plain"), INT8, file)
    weight = read_mapped(file)["head.weight"]
    assert isinstance(weight, QuantisedWeight)
    return weight


@pytest.mark.parametrize("then", ["gone", "replaced", "broken"])
def test_a_weight_whose_file_is_another_by_now_is_read_as_it_was(kernels: str, tmp_path: Path, then: str) -> None:
    file, x = tmp_path / "few.safetensors", torch.randn(2, 64)
    weight = read(file, 0)
    expected = make_product(weight, CPU)(x)
    if then == "replaced":
        read(file, 1)
    else:
        file.unlink()
    if then == "broken":
        file.write_bytes(b"no header")
    assert torch.equal(make_product(weight, CPU)(x), expected)
