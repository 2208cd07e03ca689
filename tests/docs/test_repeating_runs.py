"""What CONTRIBUTING.md says of repeating the kept runs is what they and `kept_runs.py` have."""

import json
import re
from pathlib import Path

import pytest

from netem.experiments.kept_runs import RUNS

ROOT = Path(__file__).parents[2]
SECONDS = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8"))["provenance"].get("seconds")
    for path in (ROOT / "docs" / "benchmarks").glob("*/results.json")
}
NAME = re.compile(r"`([a-z][a-z0-9-]*)`")


@pytest.fixture(scope="module")
def section() -> str:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return page.partition("## Repeating the kept runs\n")[2].partition("\n## ")[0]


def names(text: str, after: str, until: str) -> set[str]:
    return set(NAME.findall(" ".join(text.split()).partition(after)[2].partition(until)[0]))


def test_how_long_they_took(section):
    (hours,) = re.findall(r"took about (\d+) hours in all", section)
    made = {run.folder for run in RUNS}
    assert sum(SECONDS.get(folder) or 0 for folder in made) / 3600 == pytest.approx(int(hours), abs=1)
    assert {folder for folder in SECONDS if SECONDS[folder] is None} == names(section, "Without a time is", ". ")


def test_what_each_option_is_for(section):
    rows = re.findall(r"^\| `(--[a-z-]+) [A-Z]+` \| ([^|]+) \|", section, re.MULTILINE)
    needed = {option for run in RUNS for option in run.needs}
    assert {option: set(NAME.findall(folders)) for option, folders in rows} == {
        option: {run.folder for run in RUNS if option in run.needs} for option in needed
    }


def test_what_is_not_made(section):
    told = names(section, "It does not make", "**The weights") & set(SECONDS)
    assert told == set(SECONDS) - {run.folder for run in RUNS}
