from client.demo.comparison import compare
from netem.experiments.streaming import LinkResult, best_levels, make_report, systems
from netem.links.profiles import find_profile
from tests.client.demo.answers import answer, counted

NAMES = tuple(systems(8))
SWEEP = {4: 10.0, 6: 12.0, 8: 11.0}


def result(name, tokens=(1, 2), overrun=None):
    answers = {system: [answer(tokens)] for system in NAMES}
    counters = {system: counted(overrun=7 if system == overrun else 0) for system in NAMES}
    return LinkResult(find_profile(name), answers, compare(answers, counters), SWEEP)


def test_a_sound_run_has_no_faults_and_names_its_ground():
    report = make_report([result("4g"), result("satellite")], max_new_tokens=8)
    assert report.faults == []
    assert report.results["identical"] is True
    link = report.results["links"]["satellite"]
    up = link["profile"]["up"]
    assert (up["rate_bits_per_s"], up["delay_ms"], up["jitter_ms"], up["loss"]) == (1e7, 300, 0.0, 0.005)
    assert link["measured_rtt_ms"] == 601.0
    assert set(link["systems"]) == set(NAMES)
    assert all(len(row) == len(report.headings) for row in report.rows)


def test_lock_step_is_named_with_the_levels_that_serve_it_best():
    assert best_levels(SWEEP) == 6
    report = make_report([result("4g")], max_new_tokens=8)
    assert [row[1] for row in report.rows][1] == "lock-step (6)"
    assert report.results["links"]["4g"]["lockstep_levels"] == 6


def test_answers_that_differ_between_links_are_a_fault():
    report = make_report([result("5g"), result("4g", tokens=(1, 3))], max_new_tokens=8)
    assert report.results["identical"] is False
    assert "answers differ" in report.faults[0]


def test_one_system_s_overruns_on_one_link_are_a_fault():
    report = make_report([result("5g"), result("4g", overrun=NAMES[-1])], max_new_tokens=8)
    (fault,) = report.faults
    assert fault.startswith(f"on 4g, 7.0% of the passes of {NAMES[-1]}")
