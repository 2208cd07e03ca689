"""What the report of `replicas` says was done."""

from netem.experiments.service.replica_clients import Phase
from netem.experiments.service.replica_report import CALM, KILLING
from netem.experiments.service.replicas import make_report


def test_the_kills_and_the_store_that_was_gone_are_told() -> None:
    phases = {CALM: Phase(answers=40, held=[[8, 8, 8]]), KILLING: Phase(answers=90)}
    report = make_report(phases, 5, 5)
    assert not report.faults
    assert any("5 replicas were killed" in remark and "the store was gone" in remark for remark in report.remarks)
