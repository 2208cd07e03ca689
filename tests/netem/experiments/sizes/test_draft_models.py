import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from common.draft_kinds import DRAFT_KINDS, KIND_KEY
from common.draft_models.directory import EXPORTER_WEIGHTS
from common.models.source import CONFIG, WEIGHTS
from netem.experiments.sizes.draft_models import DRAFTS, SizedDraft
from netem.experiments.sizes.targets import LLAMA_1B_TARGET, shrunk

WRITTEN = [draft for draft in DRAFTS if draft.write is not None]


@pytest.mark.parametrize("draft", WRITTEN, ids=lambda draft: draft.name)
def test_a_draft_has_as_many_weights_at_both_ends_as_is_computed(draft: SizedDraft, tmp_path: Path) -> None:
    target = shrunk(LLAMA_1B_TARGET).dimensions
    assert draft.write is not None
    draft.write(tmp_path, target, "f" * 64, torch.bfloat16)
    size = draft.size(target)
    for file, due in ((WEIGHTS, size.client), (EXPORTER_WEIGHTS, size.server)):
        tensors = load_file(tmp_path / file).values()
        held = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
        assert due <= held <= 1.04 * due, "more than buffers"
    assert json.loads((tmp_path / CONFIG).read_text())[KIND_KEY] == draft.kind
    assert size.depth == draft.layers


def test_names_are_different_and_kinds_are_known() -> None:
    assert len({draft.name for draft in DRAFTS}) == len(DRAFTS)
    assert {draft.kind for draft in DRAFTS} <= DRAFT_KINDS.keys()
