"""What makes a rolling restart invalid."""

from collections import Counter

from netem.experiments.service.apps import FAILED, IDENTICAL, LEFT, Apps
from netem.experiments.service.rolling import ended_by_draining, make_report
from server.sessions.counters import Counters


def test_answers_that_are_the_same_whoever_made_them_are_what_is_wanted():
    apps = Apps("", [], Counter({IDENTICAL: 40, LEFT: 3}))
    report = make_report(apps, 5, {20: 0, 0: 7})
    assert not report.faults
    assert report.rows == [["20 s", "3", "0"], ["0 s", "2", "7"]]
    assert "43 answers: 40 identical" in report.remarks[1]
    assert apps.repeats in report.remarks[1]


def test_a_request_that_fails_is_a_fault():
    apps = Apps("", [], Counter({IDENTICAL: 40, FAILED: 1}), ["APIError: out of reach"])
    assert make_report(apps, 5, {20: 0, 0: 7}).faults == ["APIError: out of reach"]


def test_servers_that_nobody_asked_while_they_were_replaced_are_a_fault():
    assert make_report(Apps("", [], Counter({IDENTICAL: 19, FAILED: 9})), 5, {20: 0, 0: 7}).faults == [
        "19 answers for 4 apps and 5 restarts"
    ]


def test_what_a_draining_server_refused_did_not_move():
    counters = Counters(failed={"draining": 2}, refused={"draining": 3})
    assert ended_by_draining(counters.summary()) == 2
    assert ended_by_draining(Counters().summary()) == 0


def test_a_run_in_which_no_answer_moved_in_its_midst_is_not_valid():
    (fault,) = make_report(Apps("", [], Counter({IDENTICAL: 40})), 5, {20: 0, 0: 0}).faults
    assert fault == "no answer moved in its midst, though servers ended without time for them"
