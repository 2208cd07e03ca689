"""What makes a run under twice the load invalid."""

from dataclasses import replace

from netem.experiments.service.overload import LoadObservations, make_report

ALONE = LoadObservations(10.0, 20, 400, gaps=[0.03] * 50)
CROWDED = LoadObservations(10.0, 20, 400, gaps=[0.04] * 50, refused=[0.01] * 30, hints=[1.5] * 30)


def faults(**more) -> list[str]:
    return list(make_report({4: ALONE, 8: replace(CROWDED, **more)}).faults)


def test_a_run_in_which_nobody_noticed_is_valid():
    report = make_report({4: ALONE, 8: CROWDED})
    assert not report.faults
    assert [row[:2] for row in report.rows] == [["4", "20"], ["8", "20"]]
    assert report.rows[1][-2:] == ["30", "10"]
    assert "grows by 1.33" in report.remarks[1]


def test_slow_tokens_slow_refusals_and_no_refusals_are_faults():
    assert faults(gaps=[0.05] * 50) == ["tokens come 1.67 times as slowly"]
    assert faults(refused=[*[0.01] * 20, *[0.2] * 10]) == ["a refusal took 200 ms"]
    assert faults(refused=[], hints=[]) == ["nobody was refused"]
    assert faults(hints=[1.5, 0.0]) == ["a refusal said no time to come back"]
