"""Samples: windows, lengths, the held-out share, and counts that say what became of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from transformers import PreTrainedTokenizerFast

from common.protocol.errors import MisuseError
from tests.families import END_TOKEN, make_tokenizer
from tests.training.draft_models.templates import MISTRAL
from training.draft_models.data import Data, DataSettings, held_out, held_out_prompts, load_data, text_windows
from training.draft_models.records import ConversationRecord, Record, TextRecord, Turn


def conversation(ask: str, answer: str = "Yes.") -> ConversationRecord:
    return ConversationRecord((Turn("user", ask), Turn("assistant", answer)), "here")


def load(
    records: list[Record], max_length: int = 512, held: bool = False, tokenizer: PreTrainedTokenizerFast | None = None
) -> Data:
    tokenizer = tokenizer or make_tokenizer()
    ends = frozenset([tokenizer.convert_tokens_to_ids(END_TOKEN)])
    return load_data(records, tokenizer, ends, DataSettings(max_length, seed=3, held_out=held))


def test_long_samples_are_cut_or_left_out_and_counted() -> None:
    data = load([conversation("a", "b" * 60), conversation("c" * 60), conversation("d", "e")], max_length=50)
    assert (data.counts.cut, data.counts.dropped, data.counts.samples) == (1, 1, 2)
    assert max(len(sample.ids) for sample in data.samples) == 50
    (_, said) = data.counts.sentences(50)
    assert said.startswith("2 samples do not fit into 50 tokens: 1 were cut, 1 left out")


def test_nothing_left_is_one_sentence() -> None:
    with pytest.raises(MisuseError, match="leaves nothing to train on"):
        load([conversation("c" * 60)], max_length=40)


def test_conversations_that_the_template_refuses_are_counted() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = MISTRAL
    twice = ConversationRecord((Turn("user", "a"), Turn("user", "b"), Turn("assistant", "c")), "here")
    data = load([twice, conversation("x")], tokenizer=tokenizer)
    assert data.counts.unusable == 1
    assert "refused by the chat template" in data.counts.sentences(512)[1]


def test_texts_share_windows_and_long_ones_are_cut_into_several() -> None:
    tokenizer = make_tokenizer()
    texts: list[Record] = [TextRecord(letter * size, "here") for letter, size in (("x", 20), ("y", 20), ("z", 120))]
    data = load(texts, max_length=50)
    shown = [str(tokenizer.decode(sample.ids.tolist())) for sample in data.samples]
    assert shown == ["x" * 20 + "\n\n" + "y" * 20 + "\n\n", "z" * 50, "z" * 50, "z" * 20 + "\n\n"]
    assert all(sample.answers.all() for sample in data.samples)
    assert data.counts.windows == 4


def opening_tokenizer() -> PreTrainedTokenizerFast:
    """Begins every text with its end token."""
    tokenizer = make_tokenizer()
    begin = tokenizer.convert_tokens_to_ids(END_TOKEN)
    tokenizer.bos_token = END_TOKEN
    plain = tokenizer.__class__.__call__

    class Opening(PreTrainedTokenizerFast):
        def __call__(self, text, *, add_special_tokens=True, **rest):  # type: ignore[no-untyped-def]
            found = plain(self, text, add_special_tokens=False, **rest)
            if add_special_tokens and isinstance(text, str):
                found["input_ids"] = [begin, *found["input_ids"]]
            return found

    tokenizer.__class__ = Opening
    return tokenizer


def test_a_window_opens_as_the_tokenizer_opens_texts() -> None:
    tokenizer = opening_tokenizer()
    (sample,) = load([TextRecord("hello", "here")], tokenizer=tokenizer).samples
    assert sample.ids[0] == tokenizer.bos_token_id
    assert sample.answers.tolist() == [False, *([True] * (len(sample.ids) - 1))]


@pytest.mark.parametrize("make", [make_tokenizer, opening_tokenizer])
@pytest.mark.parametrize("max_length", [2, 3, 7])
def test_every_window_has_something_to_learn_and_nothing_else_is_lost(
    make: Callable[[], PreTrainedTokenizerFast], max_length: int
) -> None:
    tokenizer = make()
    room = max_length - (make is opening_tokenizer)
    sizes = (4, 3, 12, 1, 1, 1, room - 2 if room > 2 else 5, room, 2 * room, 2 * room + 1)
    texts = [chr(ord("a") + index) * size for index, size in enumerate(sizes)]
    windows = list(text_windows(tokenizer, [TextRecord(text, "here") for text in texts], max_length))
    assert all(window.learned for window in windows)
    assert max(len(window.ids) for window in windows) <= max_length
    kept = [token for window in windows for token in window.ids[window.answers].tolist()]
    given = [token for text in texts for token in tokenizer(text + "\n\n", add_special_tokens=False)["input_ids"]]
    if make is opening_tokenizer:
        assert kept == given
    else:
        rest = iter(given)
        assert all(token in rest for token in kept), "an order of its own"
        assert len(given) - len(kept) <= len(texts), "at most one token of each text"


@pytest.mark.parametrize("make", [make_tokenizer, opening_tokenizer])
def test_windows_of_one_token_are_refused(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    with pytest.raises(MisuseError, match="nothing to learn: choose a --max-length of at least 2"):
        load([TextRecord("hello", "here")], max_length=1, tokenizer=make())


def test_plain_text_needs_no_chat_template_but_conversations_do() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    assert load([TextRecord("hello", "here")], tokenizer=tokenizer).counts.samples == 1
    with pytest.raises(MisuseError, match="no chat template"):
        load([TextRecord("hello", "here"), conversation("x")], tokenizer=tokenizer)


def test_what_is_held_out_is_not_trained_on() -> None:
    data = load([*(conversation(f"question {n % 50}") for n in range(200)), TextRecord("story", "here")], held=True)
    assert data.counts.samples + data.counts.held_out == 201
    assert data.counts.held_out >= 4
    trained = {tuple(sample.ids[: int(sample.answers.argmax())].tolist()) for sample in data.samples}
    assert data.prompts
    assert not trained & {tuple(prompt) for prompt in data.prompts}


@pytest.mark.parametrize("seed", range(4))
def test_no_conversation_with_a_held_out_prompt_is_trained_on(seed: int) -> None:
    tokenizer = make_tokenizer()
    opened = Turn("assistant", "Welcome")
    records: list[Record] = []
    for n in range(100):
        ask, say = Turn("user", f"question {n % 20}?"), Turn("assistant", f"answer {n}")
        records.append(ConversationRecord((opened, ask, say, ask, say) if n % 3 else (ask, say), "here"))
    data = load_data(records, tokenizer, frozenset([0]), DataSettings(256, seed, held_out=True))
    (prompt,) = data.prompts
    assert data.counts.held_out == 5
    assert not any(sample.ids[: len(prompt)].tolist() == prompt for sample in data.samples)


def test_no_window_that_begins_as_a_held_out_one_is_trained_on() -> None:
    opening = "x" * 64
    records: list[Record] = [TextRecord(opening + letter * 60, "here") for letter in "abcdef"]
    records += [TextRecord("y" * 64 + letter * 60, "here") for letter in "abcdef"]
    data = load_data(records, make_tokenizer(), frozenset([0]), DataSettings(128, seed=3, held_out=True))
    (prompt,) = data.prompts
    assert (data.counts.held_out, data.counts.samples) == (6, 6)
    assert not any(sample.ids[: len(prompt)].tolist() == prompt for sample in data.samples)


def test_a_prompt_of_many_records_is_held_out_only_where_there_is_no_other() -> None:
    for seed in range(20):
        names = ["often"] * 500 + [f"record {n}" for n in range(50)]
        found = held_out(names, seed)
        assert len(found) == 11
        assert "often" not in {names[index] for index in found}
        assert len(held_out(["often"] * 100 + ["other"] * 100, seed)) == 100


def test_the_held_out_share_depends_on_content_and_seed() -> None:
    names = [f"record {n}" for n in range(500)]
    chosen = {names[index] for index in held_out(names, seed=1)}
    assert len(chosen) == 10
    assert {names[::-1][index] for index in held_out(names[::-1], seed=1)} == chosen
    assert {names[index] for index in held_out(names, seed=2)} != chosen
    assert held_out(["only"], seed=1) == []
    assert held_out(["same", "same"], seed=1) == []
    assert len(held_out(["one", "other"], seed=1)) == 1


def test_prompts_of_a_file_end_before_the_answer() -> None:
    tokenizer = make_tokenizer()
    records: list[Record] = [
        conversation("Hi"),
        ConversationRecord((Turn("user", "Hi"),), "here"),
        TextRecord("x" * 30, "here"),
    ]
    (asked, same, text), _ = held_out_prompts(records, tokenizer, frozenset([0]), DataSettings(100, 3, True))
    assert asked == same
    assert str(tokenizer.decode(asked)) == "<|turn|>user\nHi<|end|><|turn|>assistant\n"
    assert str(tokenizer.decode(text)) == "x" * 16


def test_prompts_that_leave_no_room_for_an_answer_are_not_measured_on() -> None:
    tokenizer = make_tokenizer()
    (whole,), _ = held_out_prompts([conversation("Hi")], tokenizer, frozenset([0]), DataSettings(100, 3, True))
    room = len(whole)
    records: list[Record] = [conversation("Hi"), conversation("Hi!"), conversation("x" * 300)]
    assert held_out_prompts(records, tokenizer, frozenset([0]), DataSettings(room, 3, True)) == ([], 3)
    (prompt,), too_long = held_out_prompts(records, tokenizer, frozenset([0]), DataSettings(room + 1, 3, True))
    assert (len(prompt), too_long) == (room, 2)
    data = load([*(conversation(f"{n}" * 60) for n in range(200)), TextRecord("story", "here")], 50, held=True)
    assert (data.prompts, data.counts.held_out, data.counts.unmeasured) == ([], 4, 4)
    assert data.counts.sentences(50)[-1] == "4 held-out prompts not measured on: 50 tokens leave no room for an answer"


def test_an_epoch_of_windows_and_conversations_learns_both() -> None:
    data = load([conversation("Hi"), TextRecord("story", "here")])
    assert (data.counts.conversations, data.counts.windows, data.counts.samples) == (1, 1, 2)
    assert data.counts.learned == sum(sample.learned for sample in data.samples) > 0


@pytest.mark.parametrize(
    "record",
    [
        ConversationRecord((Turn("user", "a <extra> one"), Turn("assistant", "Yes.")), "x.jsonl, line 7"),
        ConversationRecord((Turn("user", "one"), Turn("assistant", "<extra>")), "x.jsonl, line 7"),
        TextRecord("a <extra> one", "x.jsonl, line 7"),
    ],
)
def test_tokens_that_the_target_does_not_have_are_refused_by_file_and_line(record: Record) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["<extra>"])
    known = len(tokenizer) - 1
    others: list[Record] = [conversation("x"), TextRecord("story", "here")]
    fitting = DataSettings(100, 3, False, known)
    assert load_data(others, tokenizer, frozenset([0]), fitting).counts.samples == 2
    with pytest.raises(MisuseError, match=rf"^x\.jsonl, line 7: token {known} \('<extra>'\) is beyond the {known} "):
        load_data([*others, record], tokenizer, frozenset([0]), fitting)
    if "<extra>" in record.texts[0]:
        with pytest.raises(MisuseError, match=r"^x\.jsonl, line 7: token"):
            held_out_prompts([*others, record], tokenizer, frozenset([0]), fitting)
    assert len(load_data([*others, record], tokenizer, frozenset([0]), replace(fitting, vocabulary=known + 1)).samples)
