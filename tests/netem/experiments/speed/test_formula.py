"""netem.experiments.speed.formula: the formulas, the acceptance rate, and drafts whose acceptance is known."""

import random

import pytest
import torch

from common.drafters.ranking import DRAWN_FROM
from common.protocol.errors import MisuseError
from common.protocol.sampling import Sampling
from netem.experiments.experiment import Request
from netem.experiments.one_device.prompts import Workload
from netem.experiments.speed import formula
from netem.experiments.speed.formula import acceptance_rate, expected_accept_length, expected_speed_up
from tests.families import make_checkpoint
from tests.netem.experiments.one_device.folder import make_folder
from tests.netem.experiments.one_device.running import run_quick

TOKENS = 97
"""Of 33, two refused drafts, which each run draws anew, can leave a chain of three outside the tolerance."""
SHARP = 0.05


@pytest.mark.parametrize("rate", [0.3, 0.75])
@pytest.mark.parametrize("chain", [1, 4])
def test_the_accept_length_is_that_of_independent_draws(rate, chain):
    draws = random.Random(0)
    rounds = 20_000
    committed = 0
    for _ in range(rounds):
        accepted = 0
        while accepted < chain and draws.random() < rate:
            accepted += 1
        committed += accepted + 1
    assert expected_accept_length(rate, chain) == pytest.approx(committed / rounds, rel=0.02)
    assert expected_accept_length(rate, chain) == pytest.approx((1 - rate ** (chain + 1)) / (1 - rate))


def test_a_published_row_of_the_formula():
    # T5-small for T5-XXL, translation at temperature 0: a = 0.75, g = 7. With free drafts 3.6x, with c = 0.01 3.4x.
    assert expected_speed_up(0.75, 7, cost=0.0) == pytest.approx(3.6, abs=0.01)
    assert expected_speed_up(0.75, 7, cost=0.01) == pytest.approx(3.4, abs=0.05)
    assert expected_speed_up(0.0, 4, cost=0.25) == pytest.approx(0.5)


def test_the_acceptance_rate_by_temperature():
    p, q = torch.tensor([[0.7, 0.3], [0.4, 0.6]]), torch.tensor([[0.5, 0.5], [0.75, 0.25]])
    # Drafters draw from q squared: 0.5 and 0.5, then 0.9 and 0.1.
    assert acceptance_rate(2 * p.log(), 2 * q.log(), 2.0) == pytest.approx((0.8 + 0.5) / 2)
    likeliest = torch.tensor([[0.6, 0.4], [0.9, 0.1]])
    assert acceptance_rate(p.log(), likeliest.log(), 0.0) == 0.5


def test_no_other_token_than_those_that_are_drawn_is_accepted():
    p = torch.full((1, 2 * DRAWN_FROM), 1.0)
    q = torch.arange(2.0 * DRAWN_FROM)[None]
    assert acceptance_rate(p, q / 1e6, 1.0) == pytest.approx(0.5, abs=1e-4)


@pytest.fixture(autouse=True)
def sharp(monkeypatch):
    """Random weights are nearly indifferent, while a drafter draws from its likeliest tokens only."""
    monkeypatch.setitem(formula.RULES, "speculative", Sampling(temperature=SHARP))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose `independent` draft is the target itself, with prompts of two kinds."""
    made = make_folder(tmp_path_factory.mktemp("models"), depths=(0,))
    lines = (made / "prompts.jsonl").read_text().splitlines(keepends=True)
    (made / "prompts.jsonl").write_text("".join(lines[:4]))
    (made / "draft").rename(made / "independent")
    return made


async def test_a_draft_that_is_the_target_fills_every_chain(folder, monkeypatch):
    monkeypatch.setattr(formula, "QUICK", Workload(prompts=1, tokens=TOKENS))
    monkeypatch.setattr(formula, "CHAINS", (1, 3))
    report = await run_quick(formula, Request(0, quick=True, models=folder))
    assert not report.faults
    assert [row["chain"] for row in report.results["rows"]] == [1, 3] * len(formula.RULES)
    for row in report.results["rows"]:
        # But for near-ties of random weights, and for probabilities that are sharpened where tokens are drawn.
        assert row["acceptance_rate"] == pytest.approx(1, abs=0.15)
        assert row["accept_length"]["value"] == pytest.approx(row["chain"] + 1, rel=0.25)
        assert row["accept_length_over_predicted"] == pytest.approx(1, rel=0.2)
        assert row["speed_up_over_predicted"] == pytest.approx(1, rel=0.2)
        assert row["predicted_speed_up"] == pytest.approx(row["predicted_accept_length"] / (1 + row["chain"] / 6))


async def test_a_draft_that_is_never_right_only_costs_its_levels(folder, tmp_path, monkeypatch):
    for name in ("target", "prompts.jsonl"):
        (tmp_path / name).symlink_to(folder / name)
    make_checkpoint(tmp_path / "independent", "llama", seed=2, dtype=torch.float32)
    monkeypatch.setattr(formula, "QUICK", Workload(prompts=1, tokens=TOKENS))
    monkeypatch.setattr(formula, "CHAINS", (2,))
    report = await run_quick(formula, Request(0, quick=True, models=tmp_path))
    assert len(report.results["rows"]) == len(formula.RULES)
    for row in report.results["rows"]:
        assert row["acceptance_rate"] < 0.1
        assert row["accept_length"]["value"] == pytest.approx(1, abs=0.1)
        assert row["speed_up"]["value"] == pytest.approx(1 / (1 + 2 * formula.COST_OF_A_LEVEL), rel=0.15)


async def test_a_folder_without_that_draft_is_told_how_to_train_one(folder, tmp_path):
    for name in ("target", "prompts.jsonl", "eagle"):
        (tmp_path / name).symlink_to(folder / name)
    with pytest.raises(MisuseError, match="outrider-train independent"):
        await formula.measure(Request(0, quick=True, models=tmp_path), lambda doing, share: None)
