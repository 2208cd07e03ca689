"""The mixture: shares of the categories, what comes from where, and what is never trained on."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from training.demo.corpus import CATEGORY_WEIGHTS, PUBLIC_WEIGHTS, Corpus, CorpusConversation
from training.demo.smalltalk import TOPICS
from training.demo.split import is_held_out_prompt
from training.demo.talks.categories import CATEGORIES

PUBLIC = {name: [((f"ask of {name}", "answer"),)] for files in PUBLIC_WEIGHTS.values() for name in files}
SMALL_TALK = {ask.lower() for topic in TOPICS for ask in topic.asks}


@pytest.fixture(scope="module")
def drawn() -> list[CorpusConversation]:
    return list(islice(Corpus(5).conversations(0), 3000))


def test_all_categories_are_mixed() -> None:
    assert set(CATEGORY_WEIGHTS) == {"code", *CATEGORIES}


def test_code_has_about_a_third_of_the_text_and_no_category_is_left_behind(drawn: list[CorpusConversation]) -> None:
    """Characters stand for tokens here; code has more of them in a token."""
    lengths: Counter[str] = Counter()
    for item in drawn:
        lengths[item.category] += sum(len(ask) + len(answer) for ask, answer in item.turns)
    shares = {name: length / lengths.total() for name, length in lengths.items()}
    assert 0.35 < shares.pop("code") < 0.55
    assert all(0.05 < share < 0.25 for share in shares.values())


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
