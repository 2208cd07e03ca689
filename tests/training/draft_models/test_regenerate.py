"""Regenerated answers are the target's own greedy ones, none is made twice, and what does not fit is counted."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.protocol.errors import MisuseError, OutriderError
from tests.families import make_checkpoint
from training.draft_models import regenerate
from training.draft_models.chat import ChatRenderer, Sample
from training.draft_models.data import DataSettings, load_data
from training.draft_models.features import FrozenTarget, load_target
from training.draft_models.records import ConversationRecord, Record, Turn
from training.draft_models.regenerate import Dialogue, Regeneration, questions

ASK, SAY = Turn("user", "Hi"), Turn("assistant", "Hello")
TALKS = [ConversationRecord((ASK, SAY), "a"), ConversationRecord((Turn("user", "A longer question"), SAY, ASK), "b")]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> FrozenTarget:
    path = make_checkpoint(tmp_path_factory.mktemp("target"), "qwen2", seed=1)
    return load_target(str(path), torch.device("cpu"), "float64")


@pytest.fixture(autouse=True)
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regenerate, "ANSWER_TOKENS", 12)


def make(target: FrozenTarget, folder: Path, rows: int = 2) -> tuple[Regeneration, ChatRenderer]:
    return Regeneration(target, folder / "made.jsonl", 200, rows), ChatRenderer(target.tokenizer, target.end_tokens)


def assert_greedy(target: FrozenTarget, sample: Sample) -> None:
    with torch.no_grad():
        chosen = target.model(input_ids=torch.tensor([sample.ids.tolist()])).logits[0].argmax(-1).numpy()
    assert sample.answers.any()
    assert (chosen[:-1][sample.answers[1:]] == sample.ids[1:][sample.answers[1:]]).all()


def test_answers_are_the_targets_own_whatever_is_beside_them(target: FrozenTarget, tmp_path: Path) -> None:
    regeneration, chat = make(target, tmp_path)
    found = regeneration(chat, TALKS)
    for (sample, *_), conversation in zip(found, TALKS, strict=True):
        assert_greedy(target, sample)
        assert sample.ids[: int(sample.answers.argmax())].tolist() == chat.prompt(conversation.turns[:1])


def test_a_cache_on_a_full_disk_is_one_sentence(target: FrozenTarget, tmp_path: Path) -> None:
    regeneration, _ = make(target, tmp_path)
    regeneration.cache.symlink_to("/dev/full")
    with pytest.raises(OutriderError, match=r"made\.jsonl cannot be written: No space left on device; make room"):
        regeneration.write(Dialogue(TALKS[0], []))


def test_no_answer_is_made_twice(target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    regeneration, chat = make(target, tmp_path)
    found = regeneration(chat, TALKS[:1])
    content = regeneration.cache.read_bytes()
    # A run that was killed left half a line.
    regeneration.cache.write_bytes(content + content[:30])
    both = regeneration(chat, TALKS)
    monkeypatch.setattr(Regeneration, "generate", None)
    again = regeneration(chat, TALKS)
    assert again[0][0].ids.tolist() == both[0][0].ids.tolist() == found[0][0].ids.tolist()
    assert again[1][0].answers.tolist() == both[1][0].answers.tolist()


def test_answers_of_another_target_are_not_taken(target: FrozenTarget, tmp_path: Path) -> None:
    regeneration, chat = make(target, tmp_path)
    regeneration(chat, TALKS[:1])
    text = regeneration.cache.read_text().replace(target.fingerprint, "f" * 64)
    regeneration.cache.write_text(text)
    assert regeneration.read() == {}


def test_answers_to_another_form_of_the_conversation_are_not_taken(target: FrozenTarget, tmp_path: Path) -> None:
    regeneration, _ = make(target, tmp_path)
    regeneration.write(Dialogue(TALKS[0], []))
    retold, ends_otherwise = deepcopy(target.tokenizer), replace(target, end_tokens=target.end_tokens | {7})
    retold.chat_template = "Be kind. " + str(retold.chat_template)
    for changed in (replace(target, tokenizer=retold), ends_otherwise):
        assert replace(regeneration, target=changed).read() == {}
    assert list(regeneration.read()) == [TALKS[0].digest]


def test_a_sample_that_continues_another_takes_its_place() -> None:
    dialogue = Dialogue(TALKS[1], [])
    dialogue.prompt = [1, 2]
    dialogue.learn([3, 4])
    dialogue.prompt = [1, 2, 3, 4, 5]
    dialogue.learn([6])
    dialogue.prompt = [9]
    dialogue.learn([6])
    assert [sample.ids.tolist() for sample in dialogue.samples] == [[1, 2, 3, 4, 5, 6], [9, 6]]
    assert dialogue.samples[0].answers.tolist() == [False, False, True, True, False, True]


def test_dialogues_go_on_after_an_answer_that_ended(
    target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regeneration, chat = make(target, tmp_path)
    end = min(target.end_tokens)
    monkeypatch.setattr(Regeneration, "generate", lambda self, prompts: [[60, 61, end] for _ in prompts])
    one, two = regeneration(chat, TALKS)
    assert [int(sample.answers.sum()) for sample in one] == [3]
    assert [int(sample.answers.sum()) for sample in two] == [6]


def test_a_dialogue_is_over_with_an_answer_that_was_cut(
    target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regeneration, chat = make(target, tmp_path)
    monkeypatch.setattr(Regeneration, "generate", lambda self, prompts: [[60, 61, 62] for _ in prompts])
    assert [[int(sample.answers.sum()) for sample in samples] for samples in regeneration(chat, TALKS)] == [[3], [3]]


def test_questions_are_what_comes_before_answers() -> None:
    system = Turn("system", "Be kind.")
    assert questions([system, ASK, SAY, ASK]) == [[system, ASK], [ASK]]
    assert questions([system, ASK, SAY]) == [[system, ASK]]
    assert questions([system, SAY, ASK]) == [[system, ASK]]
    assert questions([system]) == []


def test_a_long_neighbour_cuts_no_answer(target: FrozenTarget, tmp_path: Path) -> None:
    long = ConversationRecord((Turn("user", "x" * 180),), "long")
    asked = [TALKS[0], long]
    beside, chat = make(target, tmp_path / "beside", rows=2)
    alone, _ = make(target, tmp_path / "alone", rows=1)
    found = [samples[0] for samples in beside(chat, asked)]
    assert [sample.ids.tolist() for sample in found] == [sample.ids.tolist() for (sample,) in alone(chat, asked)]
    room = 200 - len(chat.prompt(long.turns))
    assert 0 < room < 12, "the long prompt leaves less room than an answer may take"
    assert [sample.learned for sample in found] == [12, room + 1]
    for sample in found:
        assert_greedy(target, sample)


def test_what_does_not_fit_is_cut_or_left_out_and_counted(
    target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regeneration, _ = make(target, tmp_path, rows=4)
    asked: list[Record] = [
        TALKS[0],
        ConversationRecord((Turn("user", "x" * 180),), "cut"),
        ConversationRecord((Turn("user", "x" * 300),), "left out"),
    ]
    settings = DataSettings(200, seed=1, held_out=False)
    for generates in (Regeneration.generate, None):  # None: all is cached
        monkeypatch.setattr(Regeneration, "generate", generates)
        data = load_data(asked, target.tokenizer, target.end_tokens, settings, regeneration)
        assert (data.counts.cut, data.counts.dropped, data.counts.unusable) == (1, 1, 0)
        assert [len(sample.ids) for sample in data.samples if sample.learned < 12] == [200]
        assert len(data.samples) == 2


def test_a_later_question_without_room_cuts_its_sample(
    target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regeneration, chat = make(target, tmp_path)
    end = min(target.end_tokens)
    monkeypatch.setattr(Regeneration, "generate", lambda self, prompts: [[60, 61, end] for _ in prompts])
    ((sample,),) = regeneration(chat, [ConversationRecord((ASK, SAY, Turn("user", "x" * 300)), "c")])
    assert len(sample.ids) == 201
    assert sample.cut(200).learned == 3


def test_a_question_of_tokens_that_the_target_does_not_have_is_refused(
    target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regeneration, chat = make(target, tmp_path)
    monkeypatch.setattr(target.model.config, "vocab_size", max(chat.prompt(TALKS[1].turns[:1])))
    with pytest.raises(MisuseError, match=r"^b: token \d+ .* is beyond"):
        regeneration(chat, TALKS[1:])


def test_batches_do_not_depend_on_the_datas_own_answers(
    target: FrozenTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regeneration, chat = make(target, tmp_path)
    seen: list[list[int]] = []
    end = min(target.end_tokens)

    def generate(_: Regeneration, prompts: list[list[int]]) -> list[list[int]]:
        seen.append([len(prompt) for prompt in prompts])
        return [[60, end] for _ in prompts]

    monkeypatch.setattr(Regeneration, "generate", generate)
    sizes = [(5, 900), (70, 0), (6, 0), (71, 400)]
    regeneration(
        chat,
        [
            ConversationRecord((Turn("user", "x" * asks), Turn("assistant", "y" * says)), f"{asks}")
            for asks, says in sizes
        ],
    )
    assert [max(lengths) - min(lengths) for lengths in seen] == [1, 1]
