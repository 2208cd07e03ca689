"""Each experiment's table, from runs that nobody ran."""

from dataclasses import replace

import pytest

from common.draft_models.measured_acceptance import MeasuredAcceptance
from netem.experiments.capacity import clock_replayed
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.speed import clock, controller, draft_choice, frontier, network, sets
from netem.experiments.speed.runs import SpeedWorkload
from netem.experiments.speed.systems import AUTO, EAGER, SYSTEMS
from netem.plots.picture import draw_picture
from tests.netem.experiments.one_device.running import check
from tests.netem.experiments.speed.fake_runs import run

WORKLOAD = SpeedWorkload(("4g",), prompts=1, tokens=4)


def test_network_divides_by_its_baselines():
    runs = {"4g": {name: run(10.0 * place) for place, name in enumerate(SYSTEMS, start=1)}}
    report = network.make_report(runs, WORKLOAD)
    check("network", report)
    row = dict(zip(report.headings, report.rows[-1], strict=True))
    names = list(SYSTEMS)
    assert row["system"] == "auto"
    assert row["x cloud"] == f"{len(names):.2f}"
    assert row["x lock-step moa"] == f"{len(names) / (1 + names.index('lock-step moa')):.2f}"
    assert report.faults == []


def test_network_refuses_answers_that_differ():
    runs = {"4g": {name: run(10.0) for name in SYSTEMS}}
    assert "systems and links: yes" in network.make_report(runs, WORKLOAD).remarks[0]
    runs["4g"]["auto"] = run(10.0, tokens=(4, 3, 2, 1))
    report = network.make_report(runs, WORKLOAD)
    (fault,) = report.faults
    assert "the answers differ" in fault
    assert "systems and links: NO" in report.remarks[0]


def test_frontier_has_rounds_of_every_length_and_no_system_twice():
    systems = frontier.systems()
    rounds = {f"lock-step moa, {levels}": levels for levels in frontier.ROUND_LEVELS}
    assert {name: systems[name].policy.round_levels for name in rounds} == rounds
    asked = [replace(system, name="") for system in systems.values()]
    assert all(system not in asked[place + 1 :] for place, system in enumerate(asked))
    assert set(SYSTEMS) - set(systems) == {"lock-step moa", "lock-step moa, long", "assist"}


def test_frontier_draws_rounds_as_one_line():
    runs = {"4g": {name: run(10.0 + place) for place, name in enumerate(frontier.systems())}}
    report = frontier.make_report(runs, WORKLOAD)
    check("frontier", report)
    assert [row[3] for row in report.rows] == [f"{10 + place}.0" for place in range(len(runs["4g"]))]
    (axes,) = draw_picture(EXPERIMENTS["frontier"].draw(), report.results).axes
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 1]
    assert [len(line.get_xdata()) for line in lines] == [len(frontier.ROUND_LEVELS)]


def test_what_auto_takes_is_held_against_the_best_draft_for_each_kind_of_prompts():
    speeds = {"moa": {"code": 8.0, "chat": 5.0}, "block+lookup": {"code": 10.0, "chat": 4.0}}
    runs = {draft: {kind: run(speed) for kind, speed in of.items()} for draft, of in speeds.items()}
    place = draft_choice.Place("4g", 0.005, "block+lookup", runs)
    assert place.best == "block+lookup"
    assert place.ratios == pytest.approx({"code": 1.0, "chat": 0.8})
    report = draft_choice.make_report([place], draft_choice.QUICK)
    check("draft-choice", report)
    assert report.rows[0][2:] == ["**block+lookup (auto)**", "10", "4", "7.0", "0.80 (chat)"]
    assert report.results["least_ratio"] == pytest.approx(0.8)


def test_auto_takes_guesses_on_a_slow_laptop_and_what_misses_seldom_on_a_long_link():
    worths = {"guesses": MeasuredAcceptance(8.0, 3.5), "careful": MeasuredAcceptance(6.8, 1.99)}
    assert draft_choice.taken_by_auto(worths, level=0.05, round_trip=0.0) == "guesses+lookup"
    assert draft_choice.taken_by_auto(worths, level=0.001, round_trip=0.6) == "careful+lookup"


def test_the_controller_is_held_against_the_best_tree():
    def of(speed: float) -> dict:
        return {kind: run(speed) for kind in controller.CATEGORIES}

    fixed = {tree: of(10.0 + place) for place, tree in enumerate(controller.TREES)}
    sweeps = [controller.TreeSweep("4g", system.name, of(9.0), fixed) for system in (EAGER, AUTO)]
    assert sweeps[0].best == controller.TREES[-1]
    assert sweeps[0].ratio == pytest.approx(9.0 / (9.0 + len(controller.TREES)))
    report = controller.make_report(sweeps, WORKLOAD)
    check("controller", report)
    assert report.rows[0][5] == f"{sweeps[0].ratio:.2f}"


def test_a_prediction_takes_the_first_token_as_it_was():
    measured = run(40.0)  # four tokens, the first after 0.1 s
    assert sets.with_first_token(measured, 30.0) == pytest.approx(4 / (0.1 + 3 / 30.0))
    found = [sets.Prediction("4g", "code", system.name, 0.9, measured, measured, 50.0) for system in (EAGER, AUTO)]
    assert found[0].ratio == pytest.approx(0.8)
    report = sets.make_report(found, WORKLOAD)
    check("sets", report)
    assert report.faults == []


def test_a_failed_drafter_of_the_rounds_that_coverage_is_from_is_a_fault():
    failed = run(10.0, note="the drafter failed")
    found = [sets.Prediction("4g", "code", system.name, 0.9, failed, run(40.0), 50.0) for system in (EAGER, AUTO)]
    assert sets.make_report(found, WORKLOAD).faults == ["the drafter failed"]


def test_what_overran_its_costs_says_nothing_of_the_clock():
    setting = clock.ClockSetting("4g", 1, 1, (EAGER, AUTO), 1)

    def compared(system: str, virtual: float, late: float) -> clock.ClockComparison:
        return clock.ClockComparison("4g", 1, 1, system, virtual, (10.0, 9.0, 11.0), late_passes=0.0, late_levels=late)

    workload = clock.ClockWorkload((setting,), 4)
    near = clock.make_report([compared("eager", 10.4, 0.0), compared("auto", 9.6, 0.0)], workload, {})
    check("clock", near)
    check("clock-replayed", clock_replayed.make_report([compared("eager", 10.4, 0.0)], clock_replayed.QUICK))
    assert near.faults == []
    kept, off = {"faults": []}, {"faults": ["the loss up is 50.00% where 4g promises 0.10%"]}
    over_links = clock.make_report([compared("eager", 10.4, 0.0)], workload, {"5g": kept, "4g": off})
    assert over_links.faults == off["faults"]
    far = clock.make_report([compared("eager", 12.0, 0.0), compared("auto", 20.0, 0.5)], workload, {})
    assert ["1.20" in fault for fault in far.faults] == [True, False]
    assert far.rows[1][7] == "(2.00)"
    assert "auto never kept its costs" in far.faults[1]
