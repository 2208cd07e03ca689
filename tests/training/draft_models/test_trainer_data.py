"""What a run says of its data and of what it measures, and that both stay what they are when it is resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.models.fingerprint import fingerprint
from common.protocol.errors import MisuseError
from tests.families import make_checkpoint
from tests.training.draft_models.fake_recipe import Ran, make_inputs
from training.draft_models.trainer import TrainSettings


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def settings(inputs: tuple[Path, Path], tmp_path: Path) -> TrainSettings:
    target, data = inputs
    return TrainSettings(str(target), (data,), tmp_path / "draft", steps=2, batch_tokens=256, device="cpu")


def written(folder: Path, *records: Any) -> Path:
    file = folder / "written.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def card(ran: Ran) -> str:
    return (ran.out / "README.md").read_text()


def test_a_resumed_run_may_not_change_what_is_in_a_file_of_prompts(settings: TrainSettings, tmp_path: Path) -> None:
    asked = replace(settings, held_out=written(tmp_path, {"prompt": "fox 1?"}))

    def save(out: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ran(asked, save=save)
    written(tmp_path, {"prompt": "another"})
    with pytest.raises(MisuseError, match=r"other settings \(held out: \['written.jsonl', '\w+'\], now \["):
        Ran(replace(asked, resume=True))
    written(tmp_path, {"prompt": "fox 1?"})
    assert "On 1 held-out prompt, " in card(Ran(replace(asked, resume=True)))


def test_a_run_is_resumed_with_its_chat_template_alone(settings: TrainSettings, tmp_path: Path) -> None:
    target, data = make_inputs(tmp_path)
    asked = replace(settings, target=str(target), data=(data,))

    def save(out: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ran(asked, save=save)
    template = target / "chat_template.jinja"
    template.write_text("Be kind. " + template.read_text())
    with pytest.raises(
        MisuseError, match=r"other settings \(chat template, special tokens and end tokens: \w+, now \w"
    ):
        Ran(replace(asked, resume=True))


def test_nothing_is_measured_on_a_file_that_is_learned(settings: TrainSettings, tmp_path: Path) -> None:
    same = tmp_path / "same.jsonl"
    same.write_bytes(settings.data[0].read_bytes())
    with pytest.raises(MisuseError, match=r"^--held-out \S+same.jsonl holds what data.jsonl of --data does[^\n]+$"):
        Ran(replace(settings, held_out=same))


def test_prompts_that_are_learned_too_are_counted(settings: TrainSettings, tmp_path: Path) -> None:
    learned = [json.loads(line) for line in settings.data[0].read_text().splitlines()[:3]]
    ran = Ran(replace(settings, held_out=written(tmp_path, *learned, {"prompt": "not learned"})))
    assert "On 4 held-out prompts, " in card(ran)
    assert "3 of them were learned from too." in card(ran)
    assert "3 held-out prompts will be learned from too\n" in ran.printed
    assert "learned from too" not in card(Ran(replace(settings, out=tmp_path / "own")))


def test_a_card_and_the_run_say_why_nothing_was_measured(settings: TrainSettings, tmp_path: Path) -> None:
    long = Ran(replace(settings, held_out=written(tmp_path, {"prompt": "fox " * 3000})))
    assert long.measured is None
    reason = "no held-out prompt leaves room for an answer within 2,048 tokens"
    assert f"Nothing: {reason}.\n" in card(long)
    assert f"no accept length will be measured: {reason}\n" in long.printed
    nearly = Ran(replace(settings, held_out=written(tmp_path, {"prompt": "x" * 1950}), out=tmp_path / "nearly"))
    reason = "no held-out prompt leaves room for 128 tokens of answer and a tree of 64 in the target's context of 2,048"
    assert f"Nothing: {reason} tokens.\n" in card(nearly)
    assert f"no accept length will be measured: {reason} tokens\n" in nearly.printed
    few = written(tmp_path, {"instruction": "q", "output": "a"})
    alone = Ran(replace(settings, data=(few,), out=tmp_path / "few"))
    assert "Nothing: there was too little data to hold any out.\n" in card(alone)


def test_plain_text_has_no_answers_of_the_targets(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.draft_models.regenerate.ANSWER_TOKENS", 8)
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"paragraph {number}" for number in range(60)))
    alone = Ran(replace(settings, data=(text,), regenerate=True))
    assert "| answers | none: plain text |" in card(alone)
    assert "--regenerate has no effect: plain text holds no questions" in alone.printed
    questions = written(tmp_path, *({"prompt": f"fox {number}?"} for number in range(5)))
    both = Ran(replace(settings, data=(text, questions), regenerate=True, out=tmp_path / "both"))
    assert "| answers | the target's own, and plain text as it is |" in card(both)
    assert "has no effect" not in both.printed


def test_the_card_of_a_draft_that_brings_its_target_names_that_one(settings: TrainSettings, tmp_path: Path) -> None:
    def save(out: Path) -> Path:
        (out / "config.json").write_text("{}")
        return make_checkpoint(out / "target", "llama", seed=5)

    ran = Ran(settings, save=save)
    given, new = fingerprint(settings.target), fingerprint(ran.out / "target")
    assert given != new
    assert f'target_fingerprint: "{new}"' in card(ran)
    assert given not in card(ran)
    assert "the target in `target` in this folder" in card(ran)
