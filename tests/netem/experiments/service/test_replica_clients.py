"""What is recorded of answers that lose their stream."""

from netem.experiments.service.replica_clients import Phase, Reconnect


def test_what_had_a_cause_is_told_from_what_had_none() -> None:
    moved = Reconnect("a", "b", "the connection was reset", had_cause=True)
    stayed = Reconnect("a", "a", "the server was silent for 1.3 s", had_cause=False)
    phase = Phase(reconnects=[moved, stayed, moved])
    assert (phase.moved, phase.without_cause) == (2, [stayed])
    assert (stayed.came_back, moved.came_back) == (True, False)
