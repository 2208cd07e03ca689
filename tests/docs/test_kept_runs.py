"""What docs/benchmarks/README.md and docs/sampling.md say of kept runs is what their results.json have."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from common.protocol.idle import IDLE_POLICIES

DOCS = Path(__file__).parents[2] / "docs"
KEPT = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8"))
    for path in (DOCS / "benchmarks").glob("*/results.json")
}
PLACEHOLDER = re.compile(r" [A-Z]{3,}\b")
NAME = re.compile(r"`([a-z][a-z0-9-]*)`")


def one_line(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def guide() -> str:
    return one_line(DOCS / "benchmarks" / "README.md")


@pytest.fixture(scope="module")
def sampling() -> str:
    return one_line(DOCS / "sampling.md")


@pytest.fixture(scope="module")
def origins() -> list[tuple[set[str], str, str]]:
    """The rows of the table of runs of other programs: folders, commits, why."""
    page = (DOCS / "benchmarks" / "README.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| folder | commit | why |\n|---|---|---|\n")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.partition("\n\n")[0].splitlines()]
    return [(set(NAME.findall(folders)), commits, why) for folders, commits, why in cells]


def provenance(folder: str) -> dict[str, Any]:
    return KEPT[folder]["provenance"]


def named_after(text: str, words: str, until: str) -> set[str]:
    return set(NAME.findall(text.partition(words)[2].partition(until)[0]))


def test_every_run_is_of_the_commit_that_is_told(guide, origins):
    (frozen,) = re.findall(r"from one program, that of commit (\w+)\*\*", guide)
    told = {folder: commits for folders, commits, _ in origins for folder in folders}
    assert set(told) <= set(KEPT)
    for folder in KEPT:
        assert provenance(folder)["commit"][:8] in told.get(folder, frozen), folder


def test_runs_of_no_clean_commit_are_told(guide):
    told = named_after(guide, "Not of a clean commit: ", "ran with uncommitted changes")
    assert told == {folder for folder in KEPT if provenance(folder)["uncommitted_changes"]}


def test_drafts_other_than_those_that_ship_are_told(origins):
    shipped = provenance("single-device")["models"]
    of_these = {each["fingerprint"] for each in shipped.values()}

    def has_others(folder: str) -> bool:
        run = provenance(folder)
        prints = {name: each["fingerprint"] for name, each in run["models"].items()}
        same_target = prints.pop("target", "") == shipped["target"]["fingerprint"]
        return same_target and "--models" not in run["command"] and not set(prints.values()) <= of_these

    told = {folder for folders, _, why in origins for folder in folders if "600 steps" in why}
    assert {folder for folder in KEPT if has_others(folder)} == told


def test_commands_with_a_word_in_place_of_a_path_are_told(guide):
    told = named_after(guide, "a word in capitals in place of one (", ")")
    assert told == {folder for folder in KEPT if PLACEHOLDER.search(provenance(folder)["command"])}


def test_outages_beside_others_by_system_and_one_by_one(guide):
    outages = [each for each in KEPT["beside-others"]["results"]["outages"] if each["seconds"] is not None]
    gave_up = [each for each in outages if each["verdict"] != "identical"]
    assert [each["system"] for each in gave_up] == ["llama-server, draft"]
    assert (
        f"but for one answer of llama.cpp's, whose client gave up after {gave_up[0]['ended_after_seconds']:.0f} s"
        in guide
    )
    went_on = [each for each in outages if each not in gave_up and each["ended_after_seconds"] > each["seconds"]]
    silences = [
        [
            [each["silent_seconds"] for each in went_on if (each["system"], each["seconds"]) == (system, lasted)]
            for system in {each["system"] for each in outages}
        ]
        for lasted in (3.0, 8.0)
    ]

    def span(values: list[float]) -> str:
        return f"{min(values):.1f} to {max(values):.1f} s"

    medians = [span([median(of_one) for of_one in of_all]) for of_all in silences]
    single = [span([value for of_one in of_all for value in of_one]) for of_all in silences]
    assert f"silent for {medians[0]} and {medians[1]} (medians" in guide
    assert f"single ones are {single[0]} and {single[1]})" in guide


def test_constrained_answers_beside_free_ones(guide):
    def ratio(system: str, which: str) -> float:
        speeds = KEPT["conformance"]["results"]["systems"][f"{system}, 5g"][which]
        return speeds["tokens_per_second"] / speeds["unconstrained_tokens_per_second"]

    patient, eager, auto = (
        [ratio(f"{policy} moa", which) for which in ("asked", "not_asked")] for policy in ("patient", "eager", "auto")
    )
    forced = [each[1] for each in (patient, eager, auto)]
    assert f"there drafts leave {min(forced):.2f} to {max(forced):.2f} of the free speed" in guide
    assert f"it is {patient[0]:.2f} times the free speed with `patient`, {eager[0]:.2f} with `eager`" in guide
    plain = [ratio("cloud decoding", which) for which in ("asked", "not_asked")]
    assert f"and {auto[0]:.2f} with `auto`" in guide
    assert f"has {plain[0]:.2f} times where it is asked for and {plain[1]:.2f} where it is not" in guide


def test_what_a_drafter_gains_by_the_noise(sampling):
    gains = [row["gain"]["value"] for row in KEPT["sampling"]["results"]["rows"]]
    assert f"has gained {min(gains) - 1:.0%} to {max(gains) - 1:+.0%} accept length".replace("%", "", 1) in sampling


def test_drafts_and_counts_in_low_precision(sampling, guide):
    compared = KEPT["precision"]["results"]["compared"]
    of_demo = [each for each in compared if each["target"] == "demo"]
    drafts = {each["drafter"].partition(",")[0] for each in of_demo}
    assert drafts == named_after(sampling, "differ from plain decoding, with ", ", every idle policy")
    assert drafts == named_after(guide, "The drafts are ", " - `")
    assert {each["policy"] for each in of_demo} == set(IDLE_POLICIES)
    exact, fast = ([each for each in compared if each["mode"] == mode] for mode in ("batch-invariant", "fast"))
    assert {sum(each["answers"] for each in exact if each["dtype"] == dtype) for dtype in ("bfloat16", "float16")} == {
        298
    }
    different, answers = (sum(each[key] for each in fast) for key in ("different", "answers"))
    assert sum(each["different"] for each in exact) == 0
    assert "of 298 in either dtype 0 differ" in sampling
    assert f"with `--fast`, {different} of {answers}" in sampling
