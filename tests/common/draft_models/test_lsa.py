"""The mixture of a token's layers standardises in float32, and as it was stored where that is bfloat16."""

from copy import deepcopy
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from common.draft_models.directory import EXPORTER_WEIGHTS
from common.draft_models.layers import LayerShape
from common.draft_models.lsa import LayerMixture
from common.draft_models.moa import load_lsa
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint

DEVIATIONS_FROM_ZERO = 100
LAYERS, WIDTH = 4, 16


def test_channels_far_from_zero_lose_nothing_more_in_half_precision() -> None:
    torch.manual_seed(0)
    mixture = LayerMixture(LAYERS, LayerShape(WIDTH, 2, 1, 8, 32))
    nn.init.normal_(mixture.down_proj.weight, std=0.1)
    states = (torch.randn(LAYERS, WIDTH) * DEVIATIONS_FROM_ZERO + torch.randn(256, LAYERS, WIDTH)).bfloat16()
    mixture.calibrate(states)
    with torch.no_grad():
        exact, rounded = mixture(states.float()), deepcopy(mixture).bfloat16()(states)
    assert rounded.dtype == torch.bfloat16
    assert (rounded.float() - exact).pow(2).mean().sqrt() < 0.01 * exact.std()


def test_a_draft_that_was_stored_in_bfloat16_computes_in_it(tmp_path: Path) -> None:
    draft = make_moa_draft(tmp_path / "draft", make_checkpoint(tmp_path / "target", "llama"))
    stored = {name: each.bfloat16() for name, each in load_file(draft / EXPORTER_WEIGHTS).items()}
    stored["mean_LW"], stored["deviation_LW"] = (5 * torch.rand(2, *stored["gate"].shape) + 0.1).bfloat16()
    save_file(stored, draft / EXPORTER_WEIGHTS)
    lsa = load_lsa(draft).to(torch.device("cpu"), torch.bfloat16)
    mean, deviation, gate = (stored[name] for name in ("mean_LW", "deviation_LW", "gate"))
    states = torch.randn(20, *mean.shape).bfloat16() + 3 * mean
    mixed = ((states - mean) / deviation * gate).mean(dim=1)
    expected = mixed + lsa.down_proj(nn.functional.silu(lsa.up_proj(lsa.norm(mixed))))
    assert torch.equal(lsa(states), expected)
