"""The audit reports dependencies that are not pinned, not known, or known to be vulnerable, and nothing else."""

import io
import json
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.audit import advisories
from tests.audit.dependencies import TORCH, Dependency, hashed_pins, needed, pins_of, unhashed, unlicensed, unpinned

PROJECT = Path(__file__).parents[2]


def test_what_this_project_needs_is_found_through_others():
    dependencies = {each.name: each for each in needed(PROJECT)}
    assert {"torch", "grpcio", "pytest", "markupsafe", "pluggy"} <= dependencies.keys()
    assert not {"pip", "setuptools", "outrider"} & dependencies.keys()
    assert "+" not in dependencies["torch"].version


@pytest.mark.parametrize(
    ("files", "extra"),
    [(["runtime"], ""), (["runtime", "server"], "server"), (["runtime", "server", "dev"], "dev")],
)
def test_files_of_hashes_hold_what_an_extra_needs_and_nothing_else(files, extra):
    lines = [line for name in files for line in (PROJECT / "hashes" / f"{name}.txt").read_text().splitlines()]
    wanted = {each.name for each in needed(PROJECT, extra)} - {TORCH}
    assert hashed_pins(lines).keys() - {"setuptools"} == wanted


def test_whatever_is_not_pinned_exactly_is_told():
    pins = pins_of(["# a comment", "", "a_b==1.0", "C==2", "d>=3", "e==4.*,>=4.1"])
    assert pins == {"a-b": "1.0", "c": "2"}
    here = [Dependency(name, version, "MIT") for name, version in (("a-b", "1.0.0"), ("c", "2.1"), ("d", "3"))]
    assert unpinned(here, pins) == [
        "c is 2.1 here and 2 in constraints.txt; install or pin it anew",
        "d is not pinned; add d==3 to constraints.txt",
    ]


def test_whatever_is_not_fetched_by_its_hash_is_told():
    hashes = [
        "# a comment",
        "a_b==1 \\",
        "    --hash=sha256:0 \\",
        "    --hash=sha256:1",
        "c==1 \\",
        "    --hash=sha256:2",
        "d==3",
    ]
    pins = {"a-b": "1", "c": "2", "d": "3", "torch": "4"}
    assert unhashed(pins, hashes) == [
        "c==2 has no hash in hashes; make that anew, as it says",
        "d==3 has no hash in hashes; make that anew, as it says",
    ]


@pytest.mark.parametrize("licence", ["MIT", "Apache-2.0 AND (MIT OR Zlib)", "Apache-2.0 WITH LLVM-exception", "BSD"])
def test_licences_that_are_known(licence):
    assert unlicensed([Dependency("a", "1", licence)]) == []


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "MIT AND SSPL-1.0", "nothing", "Proprietary", "Copyright me"])
def test_licences_that_somebody_must_read_first(licence):
    (fault,) = unlicensed([Dependency("a", "1", licence)])
    assert f"a comes under '{licence}'" in fault


def reported(*dependencies):
    return json.dumps({"dependencies": dependencies, "fixes": []})


WHOLE = {"name": "a", "version": "1", "vulns": []}
BROKEN = {
    "name": "b",
    "version": "2",
    "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}, {"id": "X", "fix_versions": []}],
}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("said", "holes", "not_looked_at"),
    [
        (reported(WHOLE), [], ""),
        (
            reported(WHOLE, BROKEN),
            [
                "b 2 has the known hole CVE-1, mended in 2.1",
                "b 2 has the known hole X, mended in no version yet",
            ],
            "",
        ),
        (reported(WHOLE, UNKNOWN), [], "the index that was asked does not know c"),
        (reported(UNKNOWN), [], "the index that was asked knows none of them"),
        ("", [], "pip-audit got no answer"),
        ("[]", [], "pip-audit got no answer"),
    ],
)
def test_holes_are_told_and_so_is_what_nobody_looked_at(monkeypatch, tmp_path, said, holes, not_looked_at):
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b'{"vulnerabilities": []}'))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, stdout=said, stderr=""))
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("a==1\n")
    assert advisories.ask(constraints) == (holes, not_looked_at)


@pytest.mark.parametrize("answer", [OSError("no network"), b"<html>", b"{}"])
def test_where_nobody_can_be_asked_nobody_is(monkeypatch, tmp_path, answer):
    def urlopen(url, timeout):
        assert url == "https://pypi.org/pypi/a/1/json"
        if isinstance(answer, OSError):
            raise answer
        return io.BytesIO(answer)

    def run(*_, **__):
        raise AssertionError("pip-audit was run")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(subprocess, "run", run)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("a==1\n")
    assert advisories.ask(constraints) == ([], "no index that knows of holes can be reached from here")
