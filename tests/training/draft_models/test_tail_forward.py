"""The target's last layers over predictions and received K/V are what inference computes token by token."""

import pytest
import torch
from transformers import DynamicCache

from common.draft_models.tail import load_tail, write_tail
from common.models.checkpoint import load_causal_lm
from tests.families import FAMILIES, make_checkpoint
from training.draft_models.tail_forward import TwoSources, through_tail

COLUMNS = 24


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 3])
def test_known_keys_and_predicted_ones_act_as_one_sequence(tmp_path, family, layers):
    make_checkpoint(tmp_path / "target", family, layers=4)
    write_tail(tmp_path / "target", layers, tmp_path / "tail")
    target = load_causal_lm(tmp_path / "target", dtype=torch.float64)
    torch.manual_seed(0)
    tokens = torch.randint(3, 250, (2, COLUMNS))
    with torch.inference_mode():
        known = target(tokens, output_hidden_states=True, past_key_values=DynamicCache())
        entering = known.hidden_states[-1 - layers]
        held = [(layer.keys, layer.values) for layer in known.past_key_values.layers[-layers:]]
        flat = torch.stack([torch.cat([each.transpose(1, 2).flatten(2) for each in pair], -1) for pair in held])
        newest = COLUMNS // 2
        predicted = entering + torch.randn_like(entering)
        columns = torch.arange(COLUMNS)
        causal = (columns[None] <= columns[:, None]).expand(2, -1, -1)
        sees_known = causal & (columns <= newest)
        tail = load_tail(tmp_path / "tail", layers, "cpu", torch.float64)
        ours = through_tail(tail, predicted, TwoSources(flat, sees_known, causal & ~sees_known))
        plain = load_tail(tmp_path / "tail", layers, "cpu", torch.float64)
        mixed = torch.where((columns <= newest)[None, :, None], entering, predicted)
        expected = plain.model(inputs_embeds=mixed, position_ids=columns[None].expand(2, -1), use_cache=False)
    assert torch.allclose(ours[:, newest + 1 :], expected.last_hidden_state[:, newest + 1 :], atol=1e-10)
