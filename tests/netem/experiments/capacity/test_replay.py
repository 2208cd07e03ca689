from common.protocol.views import NodeView, TreeView
from netem.experiments.capacity.replay import END, Replay, ReplayDrafter
from tests.netem.experiments.capacity.recordings import LOGPS, answer, recording

REPLAY = Replay(recording(answer(0, None, 1), answer(2, 0)))


def test_an_answer_goes_on_to_its_end():
    for number, tokens in ((0, 3), (1, 2), (2, 3)):
        token = REPLAY.prompt(number)[-1]
        for _ in range(tokens):
            assert token != END
            token = REPLAY.next(token)
        assert token == END


def test_a_begun_answer_is_the_end_of_its_prompt():
    token = REPLAY.prompt(0)[-1]
    assert REPLAY.prompt(0, begun=1) == [*REPLAY.prompt(0), REPLAY.next(token)]


def test_the_targets_token_is_offered_where_it_was():
    root = REPLAY.prompt(0)[-1]
    offered = [proposal.token for proposal in ReplayDrafter(REPLAY).draft(TreeView((root,), ()))]
    following = REPLAY.next(root)
    assert offered[0] == following
    assert following not in offered[1:]
    missed = [token for token, _ in REPLAY.candidates(following)]
    assert REPLAY.next(following) not in missed
    assert len({*missed}) == len(LOGPS)


def test_below_a_wrong_token_nothing_is_right():
    root = REPLAY.prompt(0)[-1]
    wrong = REPLAY.candidates(root)[1][0]
    view = TreeView((root,), (NodeView(1, 0, wrong, 1, -0.1),))
    below = [proposal.token for proposal in ReplayDrafter(REPLAY).draft(view) if proposal.parent == 1]
    answers = range(END, REPLAY.prompt(1)[0])
    assert below
    assert not any(token in answers for token in below)
