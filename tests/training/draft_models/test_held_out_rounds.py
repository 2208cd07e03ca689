"""Accept length counts what passes commit, over all prompts together."""

import pytest

from common.drafters.best_first import Expansion
from common.drafters.lookup import LookupDrafter
from common.rounds import accept_length
from tests.training.draft_models.rehearsal import PROMPTS, random_target
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.recipe import RoundsSize


class Oracle:
    """Proposes the true text, as far as it was told, one token each time it is asked."""

    kind = "oracle"
    state = None

    def __init__(self, texts):
        self.texts = texts
        self.expansion = Expansion()

    def draft(self, view, states=()):
        from common.protocol.views import Proposal

        path = [*view.tokens, *(node.token for node in view.nodes)]
        text = next((text for text in self.texts if text[: len(path)] == path), [])
        if len(view.nodes) == self.expansion.nodes:
            return []
        parent = view.nodes[-1].id if view.nodes else 0
        return [Proposal(parent, text[len(path)], -0.1)] if len(text) > len(path) else []


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return random_target(tmp_path_factory.mktemp("accept"))


def texts(target, new_tokens):
    answers = answer_all(target, lambda _: LookupDrafter(), (), PROMPTS, RoundsSize(new_tokens))
    return [[*prompt, *answer.tokens] for prompt, answer in zip(PROMPTS, answers, strict=True)]


def measured(target, texts, new_tokens, levels=6, nodes=64):
    size = RoundsSize(new_tokens, levels, nodes)
    return accept_length(answer_all(target, lambda _: Oracle(texts), (), PROMPTS, size))


def test_without_proposals_a_pass_commits_one_token(target):
    assert measured(target, [], 9) == 1.0


@pytest.mark.parametrize("levels", [1, 3])
def test_a_perfect_drafter_gives_a_token_for_every_level_and_one_more(target, levels):
    whole = texts(target, 13)
    assert [len(text) - len(prompt) for text, prompt in zip(whole, PROMPTS, strict=True)] == [13, 13, 13]
    assert measured(target, whole, 13, levels) == levels + 1


def test_a_tree_has_no_more_nodes_than_asked(target):
    assert measured(target, texts(target, 13), 13, levels=3, nodes=2) == 3


def test_prompts_count_by_their_passes_not_by_their_number(target):
    """One prompt of three drafted perfectly: 12 tokens in 3 passes, 24 in 24."""
    whole = texts(target, 13)
    assert measured(target, whole[:1], 13, 3) == 36 / 27


def test_answers_that_end_at_once_have_no_accept_length(target):
    assert measured(target, [], 1) == 0.0
