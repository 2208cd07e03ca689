"""What a drafter is shown while it writes alone, and where its answer ends."""

from dataclasses import replace

import pytest

from client.private.draft_only import REPETITION, SPENT, AnswerBounds, DraftOnlyDecoding
from common.protocol.messages import Settings
from common.protocol.sampling import Sampling
from common.protocol.views import Proposal, TreeView

END = 0
BOUNDS = AnswerBounds(
    context=20, end_tokens=frozenset({END}), detokenise=lambda tokens: "".join("eabcdefgh"[t] for t in tokens)
)


def begun(longest: int = 8, stop: tuple[str, ...] = (), private: tuple[int, ...] = (4, 5)) -> DraftOnlyDecoding:
    return DraftOnlyDecoding((1, 2, 3), private, Settings(longest, stop=stop), BOUNDS)


def test_the_drafter_sees_all_and_that_only_the_safe_text_was_judged():
    decoding = DraftOnlyDecoding((1, 2), (3,), Settings(8, "coupled", sampling=Sampling(0.5, seed=9)), BOUNDS)
    decoding.take([Proposal(0, 7, -1.0)])
    written = TreeView((1, 2, 3, 7), (), alone=True, provisional=2, unjudged=True)
    assert decoding.view() == replace(written, rule="coupled", sampling=Sampling(0.5, seed=9), prompt_length=3)


def test_the_likeliest_proposals_are_taken_however_they_hang():
    decoding = begun()
    decoding.take([Proposal(0, 1, -2.0), Proposal(0, 2, -1.0), Proposal(-1, 3, -0.1), Proposal(-2, 4, -3.0)])
    assert (decoding.run, decoding.reason) == ((2, 4), None)


@pytest.mark.parametrize(
    ("taken", "stop", "run", "reason"),
    [
        ([1, 2, 3], (), (1, 2, 3), None),
        ([1, END, 3], (), (1, END), "stop"),
        ([1, 2, 3, 4], ("bc",), (1, 2, 3), "stop"),
        ([1] * 12, (), (1,) * 8, "length"),
        ([], (), (), SPENT),
    ],
)
def test_it_ends_where_an_answer_ends(taken, stop, run, reason):
    decoding = begun(stop=stop)
    decoding.take([Proposal(-index, token, -0.1) for index, token in enumerate(taken)])
    assert (decoding.run, decoding.reason) == (run, reason)


def test_it_ends_with_the_targets_context():
    decoding = begun(private=(4,) * 14)
    while decoding.reason is None:
        decoding.take([Proposal(0, 1, -0.1)])
    assert (decoding.run, decoding.reason) == ((1, 1, 1), "length")


def test_a_stop_string_may_span_several_levels():
    decoding = begun(stop=("ab",))
    for token in (3, 1, 2):
        assert decoding.reason is None
        decoding.take([Proposal(0, token, -0.1)])
    assert (decoding.run, decoding.reason) == ((3, 1, 2), "stop")


def test_a_stop_string_may_begin_with_the_blank_that_decoders_strip_at_the_start_of_a_text():
    bounds = replace(BOUNDS, detokenise=lambda tokens: "".join("e bcdefgh"[t] for t in tokens).removeprefix(" "))
    decoding = DraftOnlyDecoding((2, 3), (4,), Settings(8, stop=(" b",)), bounds)
    decoding.take([Proposal(0, 1, -0.1), Proposal(-1, 2, -0.1), Proposal(-2, 3, -0.1)])
    assert (decoding.run, decoding.reason) == ((1, 2), "stop")


def test_a_drafter_that_goes_round_in_circles_is_ended():
    decoding = DraftOnlyDecoding((1, 2), (3,), Settings(200), replace(BOUNDS, context=400))
    for token in range(200):
        if decoding.reason is not None:
            break
        decoding.take([Proposal(0, 1 + token % 3, -0.1)])
    assert (len(decoding.run) < 50, decoding.reason) == (True, REPETITION)
