"""What docs/benchmarks/README.md and docs/sampling.md say of kept runs is what their results.json have."""

import json
import re
from pathlib import Path
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


def test_trees_that_are_fastest(guide):
    def fastest(draft: str) -> dict[str, int]:
        return max(KEPT["trees"]["results"]["drafts"][draft], key=lambda row: row["speed_up"]["value"])

    many = ("eagle", "glide", "eagle3", "tandem", "moa, N=0", "moa, N=1", "moa, N=3")
    assert "Most drafts are fastest with 62 nodes, 8 a level, in 6 or 8 levels" in guide
    shapes = {(best["nodes"], best["breadth"], best["depth"]) for best in map(fastest, many)}
    assert shapes <= {(62, 8, 6), (62, 8, 8)}
    assert [fastest("block")[key] for key in ("nodes", "breadth", "depth")] == [62, 8, 4]
    assert {fastest(draft)["breadth"] for draft in ("independent", "hydra", "clover")} == {16}


def test_state_that_comes_newest_first(guide):
    points = [point for point in KEPT["states"]["results"]["points"] if point["study"] == "order"]
    lengths = {(point["draft"], point["what"], point["x"]): point["accept_length"]["value"] for point in points}
    times = [
        (draft, length / lengths[draft, "prefix", rate])
        for (draft, what, rate), length in lengths.items()
        if what == "newest"
    ]
    assert min(ratio for _, ratio in times) > 0.98
    assert "newest first is never worse than in prefix order by more than 2%" in guide
    heads = [ratio for draft, ratio in times if draft in ("medusa", "hydra", "clover")]
    assert f"with these three heads {min(heads):.1f} to {max(heads):.1f} times as good" in guide


def test_memory_beside_the_formulas_is_that_of_scaling(guide):
    scaling = one_line(DOCS / "scaling.md")
    (client,) = re.findall(r"client [\d.]+ in the median, [\d.]+ to ([\d.]+);", scaling)
    (server,) = re.findall(r"server [\d.]+ in the median, [\d.]+ to ([\d.]+);", scaling)
    assert f"hold up to {client} times what is computed, and one server {server} times" in guide
