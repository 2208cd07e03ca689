from common.draft_models.moa import load_moa
from common.models.checkpoint import load_causal_lm
from netem.experiments.offline.sizes import own_parameters


def count(module):
    return sum(parameter.numel() for parameter in module.state_dict().values())


def test_a_draft_of_several_depths_counts_the_clients_half_of_its_own(drafts):
    for depth in (0, 1):
        compared = drafts[f"moa, N={depth}"]
        assert own_parameters(compared) == count(load_moa(compared.directory, depth)[0]) > 0


def test_an_independent_draft_counts_whole_and_lookup_has_nothing(drafts):
    draft = drafts["draft"]
    stored = {each.data_ptr(): each.numel() for each in load_causal_lm(draft.directory).state_dict().values()}
    assert own_parameters(draft) == sum(stored.values())
    assert own_parameters(drafts["lookup"]) == 0
