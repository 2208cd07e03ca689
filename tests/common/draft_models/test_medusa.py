"""Medusa's heads on disk, and the greedy choice of their tree compared with all possible trees."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import linear, silu

from common.draft_models.directory import DraftFacts, read_draft_kind
from common.draft_models.eagle import EagleConfig, EagleDraft, save_eagle
from common.draft_models.layers import LayerShape
from common.draft_models.medusa import (
    MedusaConfig,
    MedusaDraft,
    assumed_accuracies,
    load_medusa,
    read_facts,
    save_medusa,
    sparse_tree,
)
from common.draft_models.tail import write_tail
from common.models.checkpoint import load_causal_lm, load_config
from common.models.errors import CheckpointError
from tests.families import make_checkpoint
from tests.sharded import shard

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
    for index, path in enumerate(chosen):
        assert len(path) == 1 or path[:-1] in chosen[:index]
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


def write_published(directory, heads, blocks, *, prefix="", named=None, file="medusa_lm_head.safetensors"):
    """Heads as Medusa's authors publish them: `Sequential(blocks, linear)` by number."""
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for head in range(heads):
        for block in range(blocks):
            tensors[f"{prefix}{head}.{block}.linear.weight"] = torch.randn(8, 8, generator=generator)
            tensors[f"{prefix}{head}.{block}.linear.bias"] = torch.randn(8, generator=generator)
        tensors[f"{prefix}{head}.{blocks}.weight"] = torch.randn(20, 8, generator=generator)
    directory.mkdir()
    save_file(tensors, directory / file)
    config = {"medusa_num_heads": heads if named is None else named, "medusa_num_layers": blocks}
    (directory / "config.json").write_text(json.dumps(config | {"base_model_name_or_path": "some/target"}))
    return tensors


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("prefix", ["", "medusa_head."])
@pytest.mark.parametrize("named", [3, 2])
def test_published_heads_compute_what_they_did_for_their_authors(tmp_path, blocks, prefix, named):
    """A file may hold more heads than its configuration names."""
    tensors = write_published(tmp_path / "heads", 3, blocks, prefix=prefix, named=named)
    assert read_draft_kind(tmp_path / "heads").name == "medusa"
    draft = load_medusa(tmp_path / "heads")
    assert draft.config == MedusaConfig(8, 20, assumed_accuracies(3), blocks)
    hidden = torch.randn(5, 8, generator=torch.Generator().manual_seed(4))
    for head in range(3):
        x = hidden
        for block in range(blocks):
            name = f"{prefix}{head}.{block}.linear"
            x = x + silu(linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"]))
        expected = linear(x, tensors[f"{prefix}{head}.{blocks}.weight"])
        torch.testing.assert_close(draft.logits(head, hidden, nn.Identity()), expected)


@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "shards"])
def test_heads_inside_their_whole_model_are_those_alone(tmp_path, sharded):
    """Medusa-2: the model and its heads were trained together and are saved together."""
    target = make_checkpoint(tmp_path / "whole", "llama")
    sizes = load_config(target)
    shapes = {"0.0.linear.weight": (48, 48), "0.0.linear.bias": (48,), "0.1.weight": (sizes.vocab_size, 48)}
    assert sizes.hidden_size == 48
    heads = {f"medusa_head.{name}": torch.randn(shape) for name, shape in shapes.items()}
    model = load_file(target / "model.safetensors")
    save_file(model | heads, target / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"medusa_num_heads": 1, "medusa_num_layers": 1}))
    if sharded:
        shard(target)
    assert read_draft_kind(target).name == "medusa"
    draft = load_medusa(target)
    assert draft.config == MedusaConfig(48, sizes.vocab_size, assumed_accuracies(1))
    hidden = torch.randn(5, 48)
    x = hidden + silu(linear(hidden, heads["medusa_head.0.0.linear.weight"], heads["medusa_head.0.0.linear.bias"]))
    torch.testing.assert_close(draft.logits(0, hidden, nn.Identity()), linear(x, heads["medusa_head.0.1.weight"]))
    # The same directory is the target, whose tail brings no heads.
    ids = torch.arange(7)[None]
    whole = load_causal_lm(target)(ids).logits
    alone = load_causal_lm(make_checkpoint(tmp_path / "alone", "llama"))(ids).logits
    assert torch.equal(whole, alone)
    write_tail(target, 1, tmp_path / "tail")
    assert not any(name.startswith("medusa") for name in load_file(tmp_path / "tail" / "model.safetensors"))


def test_a_whole_model_that_lacks_a_head_is_refused_by_what_it_lacks(tmp_path):
    tensors = write_published(tmp_path / "heads", 2, 1, prefix="medusa_head.", file="model.safetensors")
    del tensors["medusa_head.1.1.weight"]
    save_file(tensors | {"lm_head.weight": torch.zeros(20, 8)}, tmp_path / "heads" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"lacks '1\.1\.weight'; fetch"):
        load_medusa(tmp_path / "heads")


def test_published_heads_name_the_sizes_of_their_target(tmp_path):
    write_published(tmp_path / "heads", 2, 1, file="model.safetensors")
    assert read_facts(tmp_path / "heads") == DraftFacts(hidden=8, vocabulary=20)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"medusa_num_heads": 3}, "lacks '2.0.linear.weight', '2.0.linear.bias', '2.1.weight'; fetch"),
        ({"medusa_num_layers": 2}, "holds '0.1.weight'"),
        ({"medusa_num_heads": 10**12}, "describes no Medusa heads"),
        ({"medusa_num_heads": "many"}, "describes no Medusa heads"),
    ],
)
def test_incomplete_heads_are_refused_in_one_sentence(tmp_path, named, message):
    write_published(tmp_path / "heads", 2, 1)
    config = json.loads((tmp_path / "heads" / "config.json").read_text())
    (tmp_path / "heads" / "config.json").write_text(json.dumps(config | named))
    with pytest.raises(CheckpointError, match=message):
        load_medusa(tmp_path / "heads")
