"""A saved target is an ordinary checkpoint, whatever attention its family has and whatever ran it before."""

from pathlib import Path

import pytest
import torch

from common.models.attention import take_over
from common.models.checkpoint import load_causal_lm
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from training.draft_models.features import load_target
from training.draft_models.saved_target import save_target


@pytest.mark.parametrize("taken_over", [False, True])
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt-oss"])
def test_every_family_is_saved_and_computes_the_same(tmp_path: Path, family: str, taken_over: bool) -> None:
    """Gemma-2 and gpt-oss have no scaled_dot_product_attention in transformers."""
    target = load_target(
        str(make_family_checkpoint(tmp_path / "given", FAMILIES[family])), torch.device("cpu"), "float32"
    )
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        expected = target.model(ids).logits
        if taken_over:
            take_over(target.model)
        save_target(tmp_path / "saved", target.model, target)
        saved = load_causal_lm(tmp_path / "saved")
        torch.testing.assert_close(saved(ids).logits, expected)
    assert "attn_implementation" not in (tmp_path / "saved" / "config.json").read_text()
