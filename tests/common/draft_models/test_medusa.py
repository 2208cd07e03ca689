"""Medusa's heads on disk, and the greedy choice of their tree compared with all possible trees."""

import json
import math

import pytest
import torch
from torch import nn

from common.draft_models.directory import read_draft_kind
from common.draft_models.eagle import EagleConfig, EagleDraft, save_eagle
from common.draft_models.layers import LayerShape
from common.draft_models.medusa import MedusaConfig, MedusaDraft, load_medusa, save_medusa, sparse_tree
from common.models.errors import CheckpointError

ACCURACIES = ((0.6, 0.2, 0.1), (0.4, 0.3, 0.05), (0.3, 0.1, 0.1))


def expected_accepted(tree):
    return sum(math.prod(ACCURACIES[level][rank] for level, rank in enumerate(path)) for path in tree)


def all_trees(nodes):
    """Every set of `nodes` paths that holds the parents of all its paths."""
    trees = {frozenset()}
    for _ in range(nodes):
        grown = set()
        for tree in trees:
            for above in [(), *tree]:
                for rank in range(3 if len(above) < 3 else 0):
                    grown.add(tree | {(*above, rank)})
        trees = {tree for tree in grown if len(tree) > len(next(iter(trees)))}
    return trees


@pytest.mark.parametrize("nodes", [1, 2, 4, 5])
def test_no_tree_of_that_size_is_expected_to_have_more_accepted(nodes):
    chosen = sparse_tree(ACCURACIES, nodes)
    assert len(set(chosen)) == nodes
    assert expected_accepted(chosen) == pytest.approx(max(map(expected_accepted, all_trees(nodes))))


def test_parents_come_first_and_the_tree_is_no_deeper_than_there_are_heads():
    chosen = sparse_tree(ACCURACIES, 39)
    assert len(chosen) == 39
    assert max(map(len, chosen)) == 3
    for place, path in enumerate(chosen):
        assert len(path) == 1 or path[:-1] in chosen[:place]
    assert sparse_tree(ACCURACIES, 1000) == chosen


def test_unlikely_paths_and_ranks_that_never_came_true_are_left_out():
    assert sparse_tree(((0.5, 0.0), (0.5, 0.1)), 64) == [(0,), (0, 0), (0, 1)]
    assert sparse_tree(((0.5, 0.0), (0.5, 0.1)), 64, least_probability=0.06) == [(0,), (0, 0)]


def test_ranks_need_not_fall_in_likelihood():
    assert sparse_tree(((0.1, 0.5),), 1) == [(1,)]


@pytest.mark.parametrize("shared", [False, True])
def test_untrained_heads_repeat_the_targets(shared):
    target_head = nn.Linear(8, 20, bias=False)
    draft = MedusaDraft(MedusaConfig(8, 20, ACCURACIES, blocks=2, shared_head=shared))
    draft.begin_from(target_head.weight)
    hidden = torch.randn(4, 8)
    for index in range(3):
        assert torch.equal(draft.logits(index, hidden, target_head), target_head(hidden))
    own = sum(parameter.numel() for name, parameter in draft.named_parameters() if name.startswith("heads"))
    assert own == (0 if shared else 3 * 8 * 20)


@pytest.mark.parametrize("shared", [False, True])
def test_heads_are_read_as_they_were_written_with_the_accuracies_measured(tmp_path, shared):
    draft = MedusaDraft(MedusaConfig(8, 20, ACCURACIES, shared_head=shared))
    for parameter in draft.parameters():
        nn.init.normal_(parameter)
    measured = ((0.5, 0.25), (0.25, 0.125), (0.125, 0.0625))
    save_medusa(tmp_path, "f" * 64, draft, measured)
    assert read_draft_kind(tmp_path).name == "medusa"
    read = load_medusa(tmp_path)
    assert read.config == MedusaConfig(8, 20, measured, shared_head=shared)
    for name, tensor in draft.state_dict().items():
        assert torch.equal(read.state_dict()[name], tensor)


def test_other_directories_are_refused_in_one_sentence(tmp_path):
    save_eagle(tmp_path / "eagle", "f" * 64, EagleDraft(EagleConfig(LayerShape(32, 4, 2, 8, 40))))
    with pytest.raises(CheckpointError, match="kind 'eagle'"):
        load_medusa(tmp_path / "eagle")
    save_medusa(tmp_path / "medusa", "f" * 64, MedusaDraft(MedusaConfig(8, 20, ACCURACIES)), ACCURACIES)
    config = json.loads((tmp_path / "medusa" / "config.json").read_text())
    for change, message in (({"accuracies": 3}, "describes no Medusa heads"), ({"hidden": 9}, "do not fit")):
        (tmp_path / "medusa" / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(CheckpointError, match=message):
            load_medusa(tmp_path / "medusa")
