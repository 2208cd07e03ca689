"""What is recorded of an answer under faults."""

from client.link.link_state import LinkState
from netem.experiments.torture.answer_record import FaultRecord
from netem.experiments.torture.plan import FaultKind


def test_the_wait_ends_with_the_first_final_token_of_a_new_stream():
    record = FaultRecord()
    record.fault_began(FaultKind.RESET)
    record.fault_ended(10.0)
    record.committed([1], 10.1)  # it was on its way
    record.link_changed(LinkState.OFFLINE)
    record.committed([], 10.2)
    record.committed([2], 10.5)
    record.committed([3], 11.0)
    assert record.waits == [(FaultKind.RESET, 0.5)]


def test_a_blackhole_may_leave_the_stream_standing():
    record = FaultRecord()
    record.fault_began(FaultKind.BLACKHOLE)
    record.committed([1], 9.0)
    record.fault_ended(10.0)
    record.committed([2], 10.25)
    assert record.waits == [(FaultKind.BLACKHOLE, 0.25)]


def test_of_faults_that_overlap_no_wait_is_measured():
    record = FaultRecord()
    record.fault_began(FaultKind.BLACKHOLE)
    record.fault_began(FaultKind.KILL)
    record.link_changed(LinkState.OFFLINE)
    record.fault_ended(1.0)
    record.fault_ended(2.0)
    record.committed([1], 3.0)
    record.fault_began(FaultKind.MOVE, server_is_down=True)
    record.link_changed(LinkState.OFFLINE)
    record.fault_ended(4.0)
    record.committed([2], 5.0)
    assert record.waits == []
    assert record.hits == {FaultKind.BLACKHOLE: 1, FaultKind.KILL: 1, FaultKind.MOVE: 1}


def test_final_tokens_that_are_not_in_the_answer_were_retracted():
    record = FaultRecord()
    record.committed([1, 2], 0.0)
    record.committed([3], 0.0)
    assert [record.retracted(answer) for answer in ([1, 2, 3, 4], [1, 2, 4], [], [1, 2, 3])] == [0, 1, 3, 0]
