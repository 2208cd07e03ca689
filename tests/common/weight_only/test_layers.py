"""Quantised layers stand where plain ones stood."""

import pytest
import torch
from torch import nn

from common.weight_only.layers import QuantisedEmbedding, QuantisedLinear
from common.weight_only.modes import QUANTISED
from common.weight_only.weight import quantise


@pytest.mark.parametrize("mode", QUANTISED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_linear_layer_adds_its_bias_and_keeps_shape_and_dtype(mode, dtype):
    weight, bias = quantise(torch.randn(48, 70), mode), torch.randn(48, dtype=dtype)
    x = torch.randn(2, 3, 70, dtype=dtype)
    out = QuantisedLinear(weight, bias)(x)
    assert out.dtype is dtype
    assert torch.equal(out, QuantisedLinear(weight)(x) + bias)
    assert torch.corrcoef(torch.stack([out.float().flatten(), plain(weight, bias, x).flatten()]))[0, 1] > 0.999


def plain(weight, bias, x):
    return nn.functional.linear(x.float(), weight.dequantised(torch.float32), bias.float())


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
    trimmed = layer.trimmed(kept)
    torch.testing.assert_close(trimmed(x), layer(x)[:, kept])
    torch.testing.assert_close(trimmed.trimmed(torch.tensor([2, 0]))(x), layer(x)[:, [99, 2]])
