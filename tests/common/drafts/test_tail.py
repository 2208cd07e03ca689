"""A target's tail computes what the target's own last layers compute, in every family, whole or sharded."""

import pytest
import torch

from common.drafts.tail import load_tail, write_tail
from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from tests.families import FAMILIES, make_checkpoint

TOKENS = torch.tensor([[11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 11, 45, 7, 201, 99, 45, 7, 3, 8, 120]])


@pytest.fixture(scope="module", params=FAMILIES)
def target(request, tmp_path_factory):
    where = tmp_path_factory.mktemp(request.param)
    return make_checkpoint(
        where, request.param, layers=4, tied=request.param == "llama", sharded=request.param != "llama"
    )


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_tail_continues_where_the_earlier_layers_ended(target, tmp_path, layers):
    write_tail(target, 3, tmp_path)
    whole = load_causal_lm(target, dtype=torch.float64)
    with torch.inference_mode():
        known = whole(TOKENS, output_hidden_states=True)
        # The last entry is behind the norm, so that a tail without layers takes it as it is.
        entering = known.hidden_states[-1 - layers]
        tail = load_tail(tmp_path, layers, "cpu", torch.float64)
        positions = torch.arange(TOKENS.shape[1])[None]
        out = entering
        if layers:
            out = tail.model(inputs_embeds=entering, position_ids=positions, use_cache=False).last_hidden_state
        assert torch.allclose(tail.lm_head(out), known.logits, atol=1e-10)
        assert torch.equal(tail.get_input_embeddings()(TOKENS), whole.get_input_embeddings()(TOKENS))


def test_a_tail_deeper_than_the_target_or_the_file_is_refused(target, tmp_path):
    with pytest.raises(CheckpointError, match="has 4 layers"):
        write_tail(target, 5, tmp_path)
    write_tail(target, 1, tmp_path)
    with pytest.raises(CheckpointError, match="last 1 layers, not 3"):
        load_tail(tmp_path, 3, "cpu", torch.float64)


def test_a_tail_holds_no_earlier_layer(target, tmp_path):
    write_tail(target, 1, tmp_path / "one")
    write_tail(target, 3, tmp_path / "three")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("one", "three")]
    assert sizes[0] < sizes[1]
