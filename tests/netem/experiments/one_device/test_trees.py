import pytest

from netem.experiments.one_device import trees
from netem.experiments.one_device.bench import Tree
from netem.experiments.one_device.trees import TreeWorkload, grid
from tests.netem.experiments.one_device.running import run_quick


def test_a_grid_has_no_tree_twice():
    assert grid((1, 8), (2, 6), (16, 62)) == [
        Tree(1, 2, 2),
        Tree(1, 6, 6),
        Tree(8, 2, 16),
        Tree(8, 6, 16),
        Tree(8, 6, 48),
    ]


async def test_every_draft_is_measured_with_every_tree(request_for, monkeypatch):
    monkeypatch.setattr(trees, "QUICK", TreeWorkload(prompts=1, tokens=7, trees=grid((1, 4), (1, 3), (62,))))
    report = await run_quick(trees, request_for("draft"))
    assert [row[1:4] for row in report.rows] == [["1", "1", "1"], ["1", "3", "3"], ["4", "1", "4"], ["4", "3", "12"]]
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
