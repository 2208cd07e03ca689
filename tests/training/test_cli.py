"""The command line: bad input gives one sentence and exit code 2, and help imports no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training import cli
from training.demo import corpus, recipe


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A function that runs a command which must be refused, and gives its one sentence on standard error."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["outrider-train", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        printed = capsys.readouterr()
        said = "\n".join(line for line in printed.err.splitlines() if line.startswith("outrider-train: "))
        assert stopped.value.code == 2
        assert printed.out == ""
        assert said.count("\n") == 0
        assert "Traceback" not in printed.err
        return said

    return run


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A function that runs a command which is interrupted, and gives what it says."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["outrider-train", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 130
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize("tokens", ["0", "-3", "many"])
def test_tokens_must_be_a_positive_number(refused, tmp_path: Path, tokens: str) -> None:
    assert "--tokens" in refused("demo", "--out", str(tmp_path), "--tokens", tokens)


@pytest.mark.parametrize(
    "option",
    [("--minutes", "-3"), ("--minutes", "0"), ("--minutes", "nan"), ("--minutes", "inf"), ("--tokens", "inf"),
     ("--seed", "-1"), ("--seed", "1" + "0" * 20)],
)  # fmt: skip
def test_numbers_of_the_demo_have_a_range(refused, tmp_path: Path, option: tuple[str, str]) -> None:
    assert option[0] in refused("demo", "--out", str(tmp_path / "out"), *option)
    assert not (tmp_path / "out").exists()


def test_the_seed_of_the_demos_text_has_a_range(refused, tmp_path: Path) -> None:
    assert "--seed must be a number from 0 to" in refused("demo-data", "--out", str(tmp_path / "out"), "--seed", "-1")


def test_the_output_folder_is_asked_for(refused) -> None:
    assert "--out" in refused("demo")


def test_threads_are_bounded(refused) -> None:
    for threads in ("0", "100000"):
        said = refused("moa", "--target", "demo", "--data", "d", "--out", "o", "--threads", threads)
        assert "'--threads': Input should be" in said


def test_the_present_folder_is_one_like_any_other(refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").write_text("")
    monkeypatch.chdir(tmp_path)
    asked = ("moa", "--target", "demo", "--data", "kept", "--steps", "2")
    assert "--out . is not empty" in refused(*asked, "--out", ".")
    assert "--out / has no folder beside it" in refused(*asked, "--out", "/")


def test_an_unknown_command_is_named(refused) -> None:
    assert "'dance'" in refused("dance")


def test_a_missing_data_folder_is_named(refused, tmp_path: Path) -> None:
    assert "nowhere does not exist" in refused("demo", "--out", str(tmp_path), "--data", str(tmp_path / "nowhere"))


def test_every_missing_file_is_named(refused, tmp_path: Path) -> None:
    said = refused("demo", "--out", str(tmp_path / "out"), "--data", str(tmp_path))
    assert "train/tinystories_10k.txt" in said
    assert "train/rasbt_instruction_data.json" in said


def test_an_earlier_run_is_not_overwritten(refused, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert "--resume" in refused("demo", "--out", str(tmp_path))


@pytest.mark.parametrize("left", ["target/model.safetensors", "prompts.jsonl"])
def test_a_finished_target_is_not_overwritten(refused, tmp_path: Path, left: str) -> None:
    """Its `work` may have been removed, which is large."""
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_text("hours of training")
    assert f"{tmp_path / left.split('/')[0]} is of an earlier run" in refused("demo", "--out", str(tmp_path))
    assert (tmp_path / left).read_text() == "hours of training"
    assert not (tmp_path / "work").exists()


def test_what_has_not_begun_is_not_resumed(refused, tmp_path: Path) -> None:
    out = tmp_path / "typo"
    assert "there is no run in" in (said := refused("demo", "--out", str(out), "--resume"))
    assert said.endswith("name the right --out, or leave out --resume")
    assert not out.exists()
    (out / "work").mkdir(parents=True)
    said = refused("demo", "--out", str(out), "--resume")
    assert said.endswith("work to continue: remove it, and leave out --resume")


def test_resuming_with_other_settings_is_refused(refused, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "settings.json").write_text("{}")
    assert "other settings" in refused("demo", "--out", str(tmp_path), "--resume")


def test_an_output_file_is_refused(refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file" in refused("demo", "--out", str(tmp_path / "file"))


def test_evaluation_names_missing_models(refused, tmp_path: Path) -> None:
    assert "lacks target" in refused("evaluate-demo", "--models", str(tmp_path))


@pytest.mark.parametrize(
    ("stored", "options", "said"),
    [
        (False, (), "interrupted before the first step; the same command begins again"),
        (True, (), "interrupted; the same command with --resume continues"),
        (True, ("--resume",), "interrupted; the same command continues"),
    ],
)
def test_ctrl_c_says_how_the_demo_goes_on(
    interrupted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool, options: tuple[str, ...], said: str
) -> None:
    def train(out: Path, *_: object) -> None:
        if stored:
            (out / "work").mkdir(parents=True)
            (out / "work" / "settings.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(recipe, "train_demo", train)
    assert interrupted("demo", "--out", str(tmp_path / "out"), *options) == f"outrider-train: {said}\n"


def test_an_interrupted_file_of_the_demos_text_is_not_there(
    interrupted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, written = corpus.messages, []

    def messages(conversation: corpus.CorpusConversation) -> list[dict[str, str]]:
        written.append(conversation)
        if len(written) == 3:
            raise KeyboardInterrupt
        return plain(conversation)

    monkeypatch.setattr(corpus, "messages", messages)
    said = interrupted("demo-data", "--out", str(tmp_path / "data.jsonl"), "--count", "5")
    assert said == "outrider-train: interrupted; nothing is written, and the same command begins again\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_does_not_import_torch(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom training.cli import main\n"
        f"sys.argv = ['outrider-train', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=30)
