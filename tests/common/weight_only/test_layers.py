"""Layers on quantised weights compute what plain ones on the dequantised weights do, up to bfloat16's rounding."""

import pytest
import torch
from torch import nn

from common.weight_only.layers import QuantisedEmbedding, QuantisedLinear, kernel_layout
from common.weight_only.modes import INT4, INT8, QUANTISED
from common.weight_only.weight import quantise

SIZES = [(48, 64), (300, 192), (33, 70), (17, 33), (1100, 40)]


@pytest.mark.parametrize("mode", QUANTISED)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernels_product_is_that_of_the_dequantised_weight(mode, size, dtype):
    torch.manual_seed(0)
    weight, bias = quantise(torch.randn(size), mode), torch.randn(size[0], dtype=dtype)
    plain = weight.dequantised(torch.float64)
    for rows in (1, 3, 8, 65):
        x = torch.randn(2, rows, size[1], dtype=dtype)
        # The kernels read bfloat16; sums of their products are rounded to it once.
        read = x.to(torch.bfloat16).double()
        expected = read @ plain.T + bias.double()
        rounding = 2.0**-7 * (expected.abs() + bias.double().abs()) + 2.0**-12 * (read.abs() @ plain.abs().T)
        out = QuantisedLinear(weight, bias)(x)
        assert out.dtype is dtype
        assert out.shape == (2, rows, size[0])
        assert bool(((out.double() - expected).abs() <= rounding).all())


@pytest.mark.parametrize("mode", QUANTISED)
def test_an_embedding_gives_dequantised_rows(mode):
    weight = quantise(torch.randn(50, 40), mode)
    embedding = QuantisedEmbedding(weight, torch.empty(0))
    tokens = torch.tensor([[3, 49], [0, 3]])
    assert torch.equal(embedding(tokens), weight.dequantised(torch.float32)[tokens])
    assert embedding.to(torch.bfloat16)(tokens).dtype is torch.bfloat16
    with pytest.raises(IndexError):
        embedding(torch.tensor([50]))


@pytest.mark.parametrize("mode", QUANTISED)
def test_converting_the_module_leaves_the_weight_as_it_is(mode):
    layer = nn.Sequential(QuantisedLinear(quantise(torch.randn(48, 64), mode), torch.zeros(48)))
    x = torch.randn(2, 64)
    before = layer(x)
    assert torch.equal(layer.to(torch.float64)(x.double()).float(), before)


@pytest.mark.parametrize("mode", QUANTISED)
def test_a_trimmed_layer_has_the_chosen_outputs(mode):
    layer, kept = QuantisedLinear(quantise(torch.randn(100, 64), mode), torch.randn(100)), torch.tensor([2, 50, 99])
    x = torch.randn(4, 64)
    torch.testing.assert_close(layer.trimmed(kept)(x), layer(x)[:, kept])


def test_a_layout_that_is_given_is_used():
    one, other = (quantise(torch.randn(48, 64), INT4) for _ in range(2))
    x = torch.randn(1, 64)
    assert torch.equal(QuantisedLinear(one, layout=kernel_layout(other))(x), QuantisedLinear(other)(x))


def test_int8_needs_no_layout_of_its_own():
    weight = quantise(torch.randn(48, 64), INT8)
    assert QuantisedLinear(weight).weight.packed.data_ptr() == weight.packed.data_ptr()
