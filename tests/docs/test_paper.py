"""docs/paper.md: every figure of ours in a table is a link to kept results, all of one target."""

import json
import re
from pathlib import Path

import pytest

PAPER = Path(__file__).parents[2] / "docs" / "paper.md"

_LINKED = re.compile(r"\[[^\[\]]*\]\[[^\[\]]+\]")
_CODE = re.compile(r"`[^`]*`")
_RESULTS = re.compile(r'^\[[^\[\]]+\]: (\S+\.json) "', re.MULTILINE)


@pytest.fixture(scope="module")
def page() -> str:
    return PAPER.read_text(encoding="utf-8")


def test_no_figure_of_ours_is_written_by_hand(page):
    by_hand = []
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
        ours = [column for column, name in enumerate(head) if name.startswith("our")]
        for row in rows:
            assert len(row) == len(head), row
            by_hand += [row[column] for column in ours if re.search(r"\d", _LINKED.sub("", _CODE.sub("", row[column])))]
    assert by_hand == []


def test_all_results_are_of_one_target(page):
    assert "All results are of one target" in page
    targets = {
        json.loads((PAPER.parent / path).read_text(encoding="utf-8"))["provenance"]["models"]["target"]["fingerprint"]
        for path in set(_RESULTS.findall(page))
    }
    assert len(targets) == 1
