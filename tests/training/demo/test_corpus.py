"""The mixture: shares of the categories, what comes from where, and what is never trained on."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from common.models.shipped import FAMILIES
from training.demo.corpus import (
    CATEGORY_WEIGHTS,
    PUBLIC_WEIGHTS,
    TOKEN_SHARES,
    Corpus,
    CorpusConversation,
    write_conversations,
)
from training.demo.smalltalk import TOPICS
from training.demo.split import is_held_out_prompt
from training.demo.talks.categories import CATEGORIES
from training.demo.tokenizer import load_tokenizer

PUBLIC = {name: [((f"ask of {name}", "answer"),)] for files in PUBLIC_WEIGHTS.values() for name in files}
SMALL_TALK = {ask.lower() for topic in TOPICS for ask in topic.asks}


@pytest.fixture(scope="module")
def drawn() -> list[CorpusConversation]:
    return list(islice(Corpus(5).conversations(0), 3000))


def test_all_categories_are_mixed() -> None:
    assert set(CATEGORY_WEIGHTS) == {"code", *CATEGORIES}


def test_each_category_has_its_share_of_the_tokens(drawn: list[CorpusConversation]) -> None:
    tokenizer = load_tokenizer(FAMILIES["demo"].target)
    tokens: Counter[str] = Counter()
    for item in drawn:
        tokens[item.category] += sum(len(tokenizer.encode(text)) for turn in item.turns for text in turn)
    shares = {name: 100 * count / tokens.total() for name, count in tokens.items()}
    assert shares == {name: pytest.approx(share, abs=3) for name, share in TOKEN_SHARES.items()}


def test_no_generated_prompt_is_held_out(drawn: list[CorpusConversation]) -> None:
    asked = [ask for item in drawn for ask, _ in item.turns]
    generated = [ask for ask in asked if ask.lower().rstrip(".!?") not in SMALL_TALK]
    assert len(generated) > 0.8 * len(asked)
    assert not any(map(is_held_out_prompt, generated))


def test_public_text_counts_as_stories_or_chat() -> None:
    seen: dict[str, set[str]] = {}
    for item in islice(Corpus(5, PUBLIC).conversations(0), 1500):
        for ask, _ in item.turns:
            if ask.startswith("ask of "):
                seen.setdefault(item.category, set()).add(ask.removeprefix("ask of "))
    assert seen == {category: set(files) for category, files in PUBLIC_WEIGHTS.items()}


def test_conversations_depend_on_seed_and_step() -> None:
    def first(seed: int, step: int) -> list[CorpusConversation]:
        return list(islice(Corpus(seed).conversations(step), 50))

    assert first(1, 4) == first(1, 4)
    assert first(1, 4) != first(1, 5)
    assert first(1, 4) != first(2, 4)


def test_conversations_are_written_into_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    files = [tmp_path / name / "data.jsonl" for name in ("one", "other")]
    for file in files:
        write_conversations(file, 5, {}, 3)
    first, second = (file.read_text() for file in files)
    assert first == second
    assert first.count("\n") == 3
