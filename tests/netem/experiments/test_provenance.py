"""Where a result comes from: which commits compute alike."""

import json
import subprocess
from pathlib import Path

import pytest

from common.draft_kinds import KIND_KEY
from common.models.source import CONFIG, HEAD_WEIGHTS, WEIGHTS
from netem.experiments import provenance
from netem.experiments.provenance import computation, identities, same_computation, was_unchanged_since


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """Commits a change of one file in a clone of its own, which `provenance` takes for ours; returns the commit."""

    def git(*arguments: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b", *arguments)
        return subprocess.run(["git", *own], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    def commit(name: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        with path.open("a") as file:
            file.write("another line\n")
        git("add", "--all")
        git("commit", "--quiet", "--message", name)
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "netem" / "provenance.py"))
    return commit


def test_documents_and_tests_change_no_result(commit):
    first = commit("netem/provenance.py")
    alike = [commit(name) for name in ("docs/log.md", "README.md", "tests/netem/test_run.py", "docs/benchmarks/a.json")]
    assert all(same_computation(first, each) and same_computation(each, first) for each in alike)
    other = commit("models/demo/prompts.jsonl")
    assert not same_computation(first, other)
    assert not same_computation(alike[-1], commit("netem/provenance.py"))
    assert same_computation(other, other)


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize(("name", "is_unchanged"), [("docs/log.md", True), ("netem/run.py", False), ("new.py", False)])
def test_the_source_is_unchanged_while_documents_alone_are_written(commit, name, is_unchanged, is_committed):
    first = commit("netem/provenance.py")
    for each in ("docs/log.md", "netem/run.py"):
        first = commit(each)
    assert was_unchanged_since(first)
    if is_committed:
        commit(name)
    else:
        (Path(provenance.__file__).parents[1] / name).write_text("changed\n")
    assert was_unchanged_since(first) == is_unchanged
    assert (computation() == first) == is_unchanged


def test_outside_a_clone_no_commit_names_what_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    assert not computation()


def test_a_commit_that_is_not_there_is_another(commit):
    assert not same_computation("0" * 40, commit("netem/provenance.py"))
    assert Path(provenance.__file__).is_file()


@pytest.mark.parametrize("name", [WEIGHTS, *HEAD_WEIGHTS])
def test_a_draft_with_other_weights_is_another(tmp_path, name):
    (tmp_path / CONFIG).write_text(json.dumps({KIND_KEY: "medusa"}))
    found = []
    for weights in (b"some", b"others"):
        (tmp_path / name).write_bytes(weights)
        found.append(identities({"draft": tmp_path})["draft"]["fingerprint"])
    assert found[0] != found[1]
