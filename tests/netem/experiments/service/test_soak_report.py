"""What makes a soak invalid."""

from collections import Counter
from dataclasses import replace

import pytest

from netem.experiments.service.apps import DIFFERENT, IDENTICAL, LEFT, Apps
from netem.experiments.service.link_faults import KINDS
from netem.experiments.service.process_monitor import ProcessReading
from netem.experiments.service.soak_report import SoakResult, make_report
from netem.experiments.torture.plan import FaultKind

HELD = {"sessions": 0, "leases": 0, "slots": 0, "tasks": 9}


def readings(end: int = 100, threads: int = 4, files: int = 10) -> list[ProcessReading]:
    before = [ProcessReading(second, 100 * 10**6, 4, 10) for second in range(12)]
    return before + [ProcessReading(second, end * 10**6, threads, files) for second in range(12, 18)]


def result(**more) -> SoakResult:
    apps = Apps("", [], Counter({IDENTICAL: 8, LEFT: 2}), [], [0.2, 0.4, 0.3])
    words = {"held": HELD, "recomputed_tokens": 0}
    return replace(
        SoakResult(apps, Counter(dict.fromkeys(KINDS, 3)), {"outriderd": readings()}, words, words, 1800.0), **more
    )


def faults(**more) -> list[str]:
    return list(make_report(result(**more), 4, 40).faults)


def test_a_run_in_which_all_went_well_is_valid():
    assert faults() == []
    report = make_report(result(), 4, 40)
    assert report.rows == [["outriderd", "100", "100", "+0.0%", "4 to 4", "10 to 10"]]
    assert "10 answers: 8 identical" in report.remarks[1]
    assert result().apps.repeats in report.remarks[1]


def test_a_link_that_was_not_cut_is_a_fault():
    assert faults(faults=Counter()) == ["the link was never cut"]
    resets = Counter({FaultKind.RESET: 3})
    assert faults(faults=resets) == ["the link was never cut by 'blackhole'", "the link was never cut by 'move'"]
    assert faults(faults=resets, seconds=90.0) == []


def test_a_run_without_answers_is_a_fault():
    report = make_report(result(apps=Apps("", [])), 4, 40)
    assert report.faults == ["no request was answered"]
    assert report.results["first_seconds"] is None


def test_growth_beyond_5_percent_is_a_fault():
    assert faults(readings={"outriderd": readings(end=104)}) == []
    (fault,) = faults(readings={"outriderd": readings(end=106)})
    assert "outriderd grew by 6.0%" in fault


@pytest.mark.parametrize("grown", [{"threads": 5}, {"files": 13}])
def test_threads_and_files_that_are_left_are_a_fault(grown):
    (fault,) = faults(readings={"outriderd": readings(**grown)})
    assert "more threads" in fault


def test_a_wrong_answer_is_a_fault():
    apps = Apps("", [], Counter({DIFFERENT: 1}), ["'a' instead of 'b'"], [0.1])
    assert faults(apps=apps) == ["'a' instead of 'b'"]


@pytest.mark.parametrize("what", HELD)
def test_what_is_left_on_the_server_is_a_fault(what):
    server = {"held": HELD | {what: HELD[what] + 1}, "recomputed_tokens": 0}
    assert faults(server=server) == [f"1 {what} are left on the server"]


def test_what_was_computed_twice_is_a_fault():
    assert faults(server={"held": HELD, "recomputed_tokens": 2}) == [
        "2 committed positions went through the target twice"
    ]
