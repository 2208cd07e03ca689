"""Replaces the data's answers by the target's own: greedy, in batches, and cached in a file.

What may live here: generating the target's answers turn by turn, and the cache. It may not know how draft models are
trained.

The samples hold the tokens that the target chose; tokens of the decoded text could differ from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from training.draft_models.chat import ChatRenderer, Sample, TemplateRefusedError, check_tokens
from training.draft_models.features import FrozenTarget
from training.draft_models.greedy_answers import greedy_answers
from training.draft_models.records import ASSISTANT, ConversationRecord, Turn
from training.writing import written

ANSWER_TOKENS = 512

_GOES_ON = "make room, and the same command keeps the answers that are there"


@dataclass
class Dialogue:
    """A conversation while its answers are generated. questions: the turns before each answer."""

    source: ConversationRecord
    questions: list[list[Turn]]
    turns: list[Turn] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    over: bool = False

    def learn(self, answer: list[int]) -> None:
        """Adds an answer. A sample that begins with the one before replaces it, and keeps its answers."""
        ids = np.array(self.prompt + answer, dtype=np.int32)
        answers = np.arange(len(ids)) >= len(self.prompt)
        before = self.samples[-1] if self.samples else None
        if before is not None and np.array_equal(ids[: len(before.ids)], before.ids):
            answers[: len(before.ids)] |= before.answers
            self.samples.pop()
        self.samples.append(Sample(ids, answers))


@dataclass(frozen=True)
class Regeneration:
    """Generates answers of `target`, at most `rows` at a time, for samples of at most `max_length` tokens; one that
    does not fit has one token more, which shows that it has to be cut.

    cache: a JSONL file, one conversation a line with its `messages` and the samples' tokens. report: called with the
    number of conversations done and their total. Raises OutriderError where the cache cannot be written.
    """

    target: FrozenTarget
    cache: Path
    max_length: int
    rows: int
    report: Callable[[int, int], None] = lambda done, total: None

    def __call__(self, chat: ChatRenderer, conversations: Sequence[ConversationRecord]) -> list[list[Sample]]:
        """The samples of each conversation, cached or generated; empty where the template refuses."""
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        self.drop_half_line()
        known = self.read()
        missing = list({item.digest: item for item in conversations if item.digest not in known}.values())
        missing.sort(key=lambda item: (asked_characters(item.turns), item.digest))
        for start in range(0, len(missing), self.rows):
            self.report(start, len(missing))
            for dialogue in self.answer(chat, missing[start : start + self.rows]):
                known[dialogue.source.digest] = dialogue.samples
                self.write(dialogue)
        return [known[conversation.digest] for conversation in conversations]

    def answer(self, chat: ChatRenderer, conversations: Sequence[ConversationRecord]) -> list[Dialogue]:
        """Answers the conversations in parallel: all first answers, then all second ones."""
        dialogues = [Dialogue(item, questions(item.turns)) for item in conversations]
        for number in range(max(len(dialogue.questions) for dialogue in dialogues)):
            for dialogue in dialogues:
                self.ask(chat, dialogue, number)
            open_dialogues = [dialogue for dialogue in dialogues if not dialogue.over]
            if not open_dialogues:
                break
            answers = self.generate([dialogue.prompt for dialogue in open_dialogues])
            for dialogue, answer in zip(open_dialogues, answers, strict=True):
                ended = answer[-1] in self.target.end_tokens
                text = self.target.tokenizer.decode(answer[:-1] if ended else answer, skip_special_tokens=True)
                dialogue.turns.append(Turn(ASSISTANT, str(text)))
                dialogue.learn(answer)
                # A truncated answer ends the conversation.
                dialogue.over = not ended
        return dialogues

    def ask(self, chat: ChatRenderer, dialogue: Dialogue, number: int) -> None:
        """Renders the next question; a dialogue without one, or without room for it, is over.

        Raises `MisuseError` for tokens that the target does not have.
        """
        if dialogue.over or number >= len(dialogue.questions):
            dialogue.over = True
            return
        dialogue.turns += dialogue.questions[number]
        try:
            dialogue.prompt = chat.prompt(dialogue.turns)[: self.max_length + 1]
        except TemplateRefusedError:
            dialogue.over = True
            return
        check_tokens(chat.tokenizer, dialogue.prompt, self.target.config.vocab_size, dialogue.source.where)
        if len(dialogue.prompt) > self.max_length:
            # Kept without an answer, so that it counts among the samples that are cut or left out.
            dialogue.learn([])
            dialogue.over = True

    def generate(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        """Greedy answers, each with its end token or cut. One that does not fit is a token too long, so that its sample
        is cut and counted as those of the data's own answers are."""
        rooms = [min(ANSWER_TOKENS, self.max_length + 1 - len(prompt)) for prompt in prompts]
        return greedy_answers(self.target, prompts, rooms)

    def read(self) -> dict[str, list[Sample]]:
        """The cached samples that would be made again, by the digest of the conversation."""
        return {entry["source"]: [load_sample(item) for item in entry["samples"]] for entry in self.entries()}

    def entries(self) -> Iterator[Mapping[str, Any]]:
        if self.cache.exists():
            conditions = self.conditions()
            with self.cache.open(encoding="utf-8") as file:
                for entry in map(json.loads, file):
                    if conditions.items() <= entry.items():
                        yield entry

    def conditions(self) -> dict[str, Any]:
        """What an answer depends on beside its conversation."""
        return {
            "target": self.target.fingerprint,
            "chat_form": self.target.chat_form,
            "max_length": self.max_length,
        }

    def drop_half_line(self) -> None:
        """Removes an incomplete last line, which a killed run may leave."""
        if self.cache.exists():
            content = self.cache.read_bytes()
            os.truncate(self.cache, content.rfind(b"\n") + 1)

    def write(self, dialogue: Dialogue) -> None:
        entry = {
            "source": dialogue.source.digest,
            **self.conditions(),
            "messages": [{"role": turn.role, "content": turn.content} for turn in dialogue.turns],
            "samples": [
                {"ids": sample.ids.tolist(), "answers": np.flatnonzero(sample.answers).tolist()}
                for sample in dialogue.samples
            ],
        }
        with written(self.cache, _GOES_ON), self.cache.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def questions(turns: Sequence[Turn]) -> list[list[Turn]]:
    """The turns before each answer, given or not; answers before the first question are left out."""
    found: list[list[Turn]] = [[]]
    for turn in turns:
        if turn.role != ASSISTANT:
            found[-1].append(turn)
        elif any(earlier.role != "system" for earlier in found[-1]):
            found.append([])
    return found if any(turn.role != "system" for turn in found[-1]) else found[:-1]


def asked_characters(turns: Sequence[Turn]) -> int:
    """How much is asked, by which batches have prompts of like length; given answers are not read."""
    return sum(len(turn.content) for turn in turns if turn.role != ASSISTANT)


def load_sample(item: Mapping[str, Any]) -> Sample:
    ids = np.array(item["ids"], dtype=np.int32)
    answers = np.zeros(len(ids), dtype=bool)
    answers[item["answers"]] = True
    return Sample(ids, answers)
