"""What a draft copies of its target is what the target computes with."""

from pathlib import Path

import pytest
import torch
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from common.draft_models.layers import DecoderLayer, RmsNorm
from common.models.parts import layers_of
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from training.draft_models.features import load_target
from training.draft_models.layer_sizes import target_layer
from training.draft_models.target_weights import copy_feed_forward, copy_norm

WIDTH = 64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [Gemma3RMSNorm, LlamaRMSNorm])
def test_a_copied_norm_computes_what_the_targets_does(make, dtype):
    torch.manual_seed(0)
    theirs, ours = make(WIDTH, eps=1e-6), RmsNorm(WIDTH, 1e-6)
    # Of all sizes, as small ones are what a sum with one would round away.
    theirs.weight.data = torch.randn(WIDTH) * torch.logspace(-4, 0, WIDTH)
    copy_norm(ours, theirs.to(dtype))
    states = torch.randn(5, WIDTH)
    torch.testing.assert_close(ours(states), theirs.float()(states), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["llama", "glm4", "gemma2", "gemma3", "olmo2", "exaone4"])
def test_the_norm_that_is_copied_stands_before_the_feed_forward_part(tmp_path: Path, family: str) -> None:
    """The norm of whose output the target's feed-forward part is fed; nothing where that is none's."""
    target = load_target(str(make_family_checkpoint(tmp_path, FAMILIES[family])), torch.device("cpu"), "float32")
    theirs, made, fed = layers_of(target.model)[-1], {}, []
    for name, norm in theirs.named_children():
        if "norm" in name:
            norm.register_forward_hook(lambda module, given, out, name=name: made.__setitem__(name, out))
    theirs.mlp.register_forward_pre_hook(lambda module, given: fed.append(given[0]))
    target.model(torch.arange(5, 25)[None])
    before = [getattr(theirs, name) for name, out in made.items() if torch.equal(out, fed[0])]
    ours = DecoderLayer(target_layer(target))
    copy_feed_forward(ours, theirs, target.model)
    expected = RmsNorm(target.config.hidden_size, 1e-6)
    for norm in before:
        copy_norm(expected, norm)
    assert len(before) == (family not in ("olmo2", "exaone4"))
    assert torch.equal(ours.post_norm.weight, expected.weight)
