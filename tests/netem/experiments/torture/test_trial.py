"""What is measured of an answer under torture."""

from client.link.link_state import LinkState
from netem.experiments.torture.plan import Kind
from netem.experiments.torture.trial import Trial


def test_the_wait_ends_with_the_first_final_token_of_a_new_stream():
    trial = Trial()
    trial.cut(Kind.RESET)
    trial.link_returned(10.0)
    trial.show([1], 10.1)  # it was on its way
    trial.link_is(LinkState.OFFLINE)
    trial.show([], 10.2)
    trial.show([2], 10.5)
    trial.show([3], 11.0)
    assert trial.waits == [(Kind.RESET, 0.5)]


def test_a_blackhole_may_leave_the_stream_standing():
    trial = Trial()
    trial.cut(Kind.BLACKHOLE)
    trial.show([1], 9.0)
    trial.link_returned(10.0)
    trial.show([2], 10.25)
    assert trial.waits == [(Kind.BLACKHOLE, 0.25)]


def test_of_cuts_that_overlap_no_wait_is_measured():
    trial = Trial()
    trial.cut(Kind.BLACKHOLE)
    trial.cut(Kind.KILL)
    trial.link_is(LinkState.OFFLINE)
    trial.link_returned(1.0)
    trial.link_returned(2.0)
    trial.show([1], 3.0)
    trial.cut(Kind.MOVE, server_is_down=True)
    trial.link_is(LinkState.OFFLINE)
    trial.link_returned(4.0)
    trial.show([2], 5.0)
    assert trial.waits == []
    assert trial.hits == {Kind.BLACKHOLE: 1, Kind.KILL: 1, Kind.MOVE: 1}


def test_final_tokens_that_are_not_in_the_answer_were_retracted():
    trial = Trial()
    trial.show([1, 2], 0.0)
    trial.show([3], 0.0)
    assert [trial.retracted(answer) for answer in ([1, 2, 3, 4], [1, 2, 4], [], [1, 2, 3])] == [0, 1, 3, 0]
