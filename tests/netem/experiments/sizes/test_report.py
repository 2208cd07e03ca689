from dataclasses import replace

from netem.experiments.sizes.report import COLUMNS, make_report, row_cells
from tests.netem.experiments.sizes.test_rows import row


def test_computed_numbers_stand_in_brackets() -> None:
    measured, computed = (
        dict(zip(COLUMNS, row_cells(each), strict=True)) for each in (row(), row(client=None, server=None))
    )
    assert (measured["client, MB"], measured["server, MB"]) == ("500", "3,000")
    for heading in ("client, MB", "bundle, MB", "server, MB"):
        assert computed[heading].startswith("(")
    assert computed["level, ms"] == computed["pass, ms"] == ""


def test_a_different_answer_makes_a_run_invalid_and_a_near_tie_does_not() -> None:
    report = make_report([row(), replace(row(), answer="near-tie"), replace(row(), answer="different")], "4g", "tun")
    (fault,) = report.faults
    assert "Llama-3.2-1B in bfloat16 with eagle3" in fault
    assert len(report.results["rows"]) == 3
