"""What a doctor says of a draft model and a target is what the server does with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.models.errors import CheckpointError
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from server.models.fit import check_fit, read_target
from tests.drafts import make_moa_draft

SCALED = replace(FAMILIES["gpt2"], options={"scale_attn_by_inverse_layer_idx": True})


def test_a_draft_that_runs_layers_which_make_no_tail_does_not_fit(tmp_path: Path) -> None:
    target = make_family_checkpoint(tmp_path / "target", SCALED)
    with pytest.raises(CheckpointError, match=r"on which their attn\.scaling depends"):
        check_fit(str(make_moa_draft(tmp_path / "deep", target, (0, 1))), read_target(str(target)))
    assert check_fit(str(make_moa_draft(tmp_path / "flat", target, (0,))), read_target(str(target))).name == "moa"
