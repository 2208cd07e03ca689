"""What a run reads from outside is known by its content, wherever it lies."""

from pathlib import Path

from netem.experiments.experiment import Request
from netem.experiments.inputs import inputs


def test_files_are_known_by_name_size_and_hash(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "questions.jsonl").write_text("abc")
    (tmp_path / "prompts.jsonl").write_text("")
    (tmp_path / "unread.jsonl").write_text("what no experiment reads")
    found = inputs(Request(0, quick=True, data=tmp_path, models=tmp_path))
    assert {name: each["bytes"] for name, each in found.items()} == {
        "--data questions.jsonl": 3,
        "--models prompts.jsonl": 0,
    }
    assert str(found["--data questions.jsonl"]["sha256"]).startswith("ba7816bf")
    assert inputs(Request(0, quick=True)) == {}, "what ships is of the commit"


def test_llama_cpp_is_known_by_its_version(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho version: 7 >&2\n")
    program.chmod(0o755)
    found = inputs(Request(0, quick=True, llama_server=program))
    assert found == {"--llama-server": {"version": "version: 7"}}
