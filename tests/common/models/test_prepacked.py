"""Prepacked linear layers compute what plain ones do, and only where they pay."""

import pytest
import torch
from torch import nn

from common.models import prepacked
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.parts import layers_of
from common.models.prepacked import PrepackedLinear, prepack
from common.models.segment import Segment
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint

pytestmark = pytest.mark.skipif(
    not prepacked._gains(nn.Linear(2, 2)), reason="oneDNN's blocked weights are no gain on this processor"
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 32, 70])
def test_it_computes_what_a_plain_layer_does(rows: int, bias: bool) -> None:
    torch.manual_seed(rows)
    plain, entering = nn.Linear(96, 48, bias).requires_grad_(False), torch.randn(1, rows, 96)
    torch.testing.assert_close(PrepackedLinear(plain)(entering), plain(entering), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt-oss", "qwen3-moe"])
def test_a_prepacked_model_gives_the_same_logits(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = make_family_checkpoint(tmp_path_factory.mktemp(family), FAMILIES[family])
    segment = Segment(range(1, 20), range(19), range(-1, 18), wanted=range(19))
    plain, packed = (PackedModel(load_causal_lm(directory), 32, prepacked=how) for how in (False, True))
    assert any(isinstance(module, PrepackedLinear) for module in packed.model.modules())
    assert not any(isinstance(module, PrepackedLinear) for module in plain.model.modules())
    torch.testing.assert_close(packed.forward([segment]).logits, plain.forward([segment]).logits, rtol=0, atol=1e-4)


def test_weights_in_another_dtype_stay_as_they_are(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = make_family_checkpoint(tmp_path_factory.mktemp("llama"), FAMILIES["llama"])
    model = load_causal_lm(directory, dtype=torch.float64)
    prepack(model)
    assert not any(isinstance(module, PrepackedLinear) for module in layers_of(model).modules())
