from dataclasses import replace

from netem.experiments.sizes.report import HEADINGS, make_report, row_cells
from tests.netem.experiments.sizes.test_rows import row


def test_computed_numbers_stand_in_brackets() -> None:
    measured, computed = row_cells(row()), row_cells(row(client=None, server=None))
    assert len(measured) == len(computed) == len(HEADINGS)
    assert measured[4] == "500"
    assert measured[11] == "3,000"
    assert computed[4].startswith("(")
    assert computed[7].startswith("(")
    assert computed[11].startswith("(")
    assert computed[9] == computed[14] == ""


def test_a_different_answer_makes_a_run_invalid_and_a_near_tie_does_not() -> None:
    report = make_report([row(), replace(row(), answer="near-tie"), replace(row(), answer="different")], "4g", "tun")
    (fault,) = report.faults
    assert "Llama-3.2-1B in bfloat16 with eagle3" in fault
    assert len(report.results["rows"]) == 3
