"""What drafts' state takes on a server, told from files alone, is what the loaded exporters and the pool take."""

from pathlib import Path

from common.draft_models.eagle3 import load_fuse
from common.draft_models.moa import load_lsa
from common.models.checkpoint import load_config
from server.models.state_needs import StateNeeds, state_needs
from tests.drafts import make_eagle3_draft, make_eagle_draft, make_moa_draft


def test_exporters_and_kept_hidden_states_count(target: Path, tmp_path: Path) -> None:
    layers = load_config(target).num_hidden_layers
    moa, eagle = make_moa_draft(tmp_path / "moa", target), make_eagle_draft(tmp_path / "eagle", target)
    eagle3 = make_eagle3_draft(tmp_path / "eagle3", target, taps=(0, 1, 2))
    mixing = sum(tensor.numel() for tensor in load_lsa(moa).state_dict().values())
    fusing = sum(tensor.numel() for tensor in load_fuse(eagle3).state_dict().values())
    assert mixing > 0
    assert fusing > 0
    for drafts, expected in (
        ((), StateNeeds(0, 0)),
        ((moa,), StateNeeds(mixing, 0)),
        ((eagle,), StateNeeds(0, 1)),
        ((eagle3,), StateNeeds(fusing, 3)),
        ((eagle3, eagle, moa), StateNeeds(mixing + fusing, 4)),
        ((tmp_path / "absent", eagle), StateNeeds(0, 1)),
    ):
        assert state_needs([str(draft) for draft in drafts], layers) == expected
