"""netem.links.recorder: bytes that came out, as opportunities."""

from netem.links.recorder import Recorder
from netem.links.trace import Trace, TraceLine


def test_every_1500_bytes_are_an_opportunity_and_the_rest_ends_the_trace() -> None:
    recorder = Recorder()
    recorder.observe(1000, 0.0101)
    recorder.observe(1000, 0.0201)
    recorder.observe(4000, 0.0301)
    assert recorder.trace(0.05) == Trace((21, 31, 31, 31, 50))


def test_what_was_recorded_replays_as_it_was() -> None:
    line, recorder = TraceLine(Trace((3, 3, 8, 20))), Recorder()
    for _ in range(7):
        recorder.observe(1500, line.send(1500, 0.0))
    assert recorder.trace(0.040).opportunities_ms == (3, 3, 8, 20, 23, 23, 28, 40)


def test_a_link_that_carried_nothing_is_a_trace_all_the_same() -> None:
    assert Recorder().trace(0.0) == Trace((1,))
