"""What a draft copies of its target is what the target computes with."""

import pytest
import torch
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from common.draft_models.layers import RmsNorm
from training.draft_models.target_weights import copy_norm

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
