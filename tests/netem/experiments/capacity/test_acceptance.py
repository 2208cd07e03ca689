import pytest

from common.drafters.best_first import Expansion
from common.protocol.errors import OutriderError
from common.protocol.views import TreeView
from netem.experiments.capacity.acceptance import Offer, RecordingDrafter, make_recording
from netem.experiments.capacity.replay import Replay, ReplayDrafter
from tests.netem.experiments.capacity.recordings import LOGPS, answer, recording

MIXED = recording(answer(0, None, 2, 0, 1), answer(None, 0))


def recorded(replay, number, steps):
    """What is recorded of a drafter that replays an answer and is called at some of its positions."""
    drafter = RecordingDrafter(ReplayDrafter(replay))
    prompt = replay.prompt(number)
    tokens = [prompt[-1]]
    while len(tokens) <= replay.tokens(number):
        tokens.append(replay.next(tokens[-1]))
    for step in steps:
        drafter.draft(TreeView((*prompt, *tokens[1 : 1 + step]), ()))
    return drafter.recorded(prompt, tokens[1:])


@pytest.mark.parametrize("number", [0, 1])
def test_a_replayed_answer_is_recorded_as_it_was(number):
    replay = Replay(MIXED)
    offers, beside = recorded(replay, number, range(replay.tokens(number)))
    assert tuple(offers) == MIXED.answers[number].offers
    assert beside == []


def test_recording_does_not_change_what_is_drafted():
    replay = Replay(MIXED)
    plain, recording_drafter = ReplayDrafter(replay), RecordingDrafter(ReplayDrafter(replay))
    plain.expansion = recording_drafter.expansion = Expansion(breadth=2)
    view = TreeView(tuple(replay.prompt(0)), ())
    assert recording_drafter.draft(view) == plain.draft(view)
    assert len(plain.draft(view)) == 2


def test_positions_without_drafts_are_taken_for_their_neighbours():
    hit, miss = Offer(LOGPS, 0), Offer(LOGPS, None)
    made = make_recording([(3, [None, hit, None, miss])], [LOGPS])
    assert [each.offers for each in made.answers] == [(hit, hit, hit, miss)]
    assert made.answers[0].prompt_tokens == 3


def test_no_recording_is_made_where_an_answer_would_be_missing():
    """Those behind it would stand for other prompts."""
    with pytest.raises(OutriderError, match="before anything was drafted"):
        make_recording([(3, [Offer(LOGPS, 0)]), (5, [None, None])], [LOGPS])


def test_coverage_counts_the_likeliest_candidates():
    assert MIXED.coverage(1) == pytest.approx(3 / 7)
    assert MIXED.coverage(2) == pytest.approx(4 / 7)
    assert MIXED.coverage(3) == pytest.approx(5 / 7)


def test_strung_answers_go_on_with_those_that_follow():
    first, second = MIXED.strung(7).answers
    assert first.offers == MIXED.answers[0].offers + MIXED.answers[1].offers
    assert second.offers == MIXED.answers[1].offers + MIXED.answers[0].offers
