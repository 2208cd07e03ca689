import pytest

from netem.experiments.experiment import Request
from netem.experiments.one_device import trees
from netem.experiments.one_device.bench import PAPER_TREE, Tree, open_bench
from netem.experiments.one_device.compared_drafts import find_drafts, find_model_paths
from netem.experiments.one_device.trees import FULL, QUICK, TreeWorkload, grid
from tests.netem.experiments.one_device.running import run_quick


def test_a_grid_has_no_tree_twice():
    assert grid((1, 8), (2, 6), (16, 62)) == [
        Tree(1, 2, 2),
        Tree(1, 6, 6),
        Tree(8, 2, 16),
        Tree(8, 2, 62),
        Tree(8, 6, 16),
        Tree(8, 6, 62),
    ]


def test_the_grid_has_the_published_tree_and_chains():
    assert PAPER_TREE in FULL.trees
    assert PAPER_TREE in QUICK.trees
    assert [tree for tree in FULL.trees if tree.breadth == 1] == [Tree(1, depth, depth) for depth in (2, 4, 6, 8)]


@pytest.mark.parametrize(("breadth", "depth"), [(1, 3), (2, 1), (2, 2), (2, 3)])
def test_no_tree_grows_beyond_what_a_grid_names_it_by(folder, breadth, depth):
    """The draft is the target itself, whose candidates are all of the vocabulary."""
    most = trees.most_nodes(breadth, depth)
    request = Request(seed=0, quick=True, models=folder, drafts=("draft",))
    with open_bench(find_model_paths(request), find_drafts(request)) as bench:
        (draft,) = find_drafts(request)
        given = bench.answer(draft, Tree(breadth, depth, 62), [1, 2, 3], 12).rounds
        named = bench.answer(draft, Tree(breadth, depth, most), [1, 2, 3], 12).rounds
    assert max(given.packed) == 1 + most  # the root and all nodes
    assert given == named


async def test_every_draft_is_measured_with_every_tree(request_for, monkeypatch):
    monkeypatch.setattr(trees, "QUICK", TreeWorkload(prompts=1, tokens=7, trees=grid((1, 4), (1, 3), (62,))))
    report = await run_quick(trees, request_for("draft"))
    assert [row[1:4] for row in report.rows] == [["1", "1", "1"], ["1", "3", "3"], ["4", "1", "4"], ["4", "3", "36"]]
    # The target itself as a draft is always right, so that depth alone decides: six tokens in three passes, or two.
    assert [row[4][:4] for row in report.rows] == ["2.00", "3.00", "2.00", "3.00"]
    assert sum("**" in row[5] for row in report.rows) == 1
    assert report.results["drafts"]["draft"][1]["levels_per_round"] == 3


async def test_a_level_of_merged_drafts_costs_a_forward_of_each(request_for, monkeypatch):
    monkeypatch.setattr(trees, "QUICK", TreeWorkload(prompts=1, tokens=7, trees=grid((1,), (1,), (62,))))
    report = await run_quick(trees, request_for("draft+eagle"))
    (found,) = report.results["drafts"]["draft+eagle"]
    # Passes of 30 ms, behind one level of twice 5 ms each.
    assert found["levels_per_round"] == 1
    assert found["speed_up"]["value"] == pytest.approx(found["accept_length"]["value"] * 30 / 40)
