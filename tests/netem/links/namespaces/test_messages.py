"""netem.links.namespaces.messages: what is said arrives as it was said, over a socket that cuts it anywhere."""

import socket
import threading

import pytest

from netem.links.namespaces.messages import EmulatorReply, EmulatorReport, EmulatorRequest, PacketCounters, read_line
from netem.links.profiles import find_profile
from netem.links.trace import Trace


@pytest.mark.parametrize(
    "said",
    [
        EmulatorRequest(find_profile("handover-lte"), "cubic", True),
        EmulatorRequest(find_profile("5g-bursty"), None, False),
        EmulatorReply(),
        EmulatorReply("not permitted"),
        EmulatorReport(),
        EmulatorReport(PacketCounters(1, 2, 3, 4), PacketCounters(5, 6, 7, 8), Trace((1, 1, 2)), Trace((3,))),
    ],
)
def test_it_survives_its_line(said: EmulatorRequest | EmulatorReply | EmulatorReport) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = said.to_line()
        for piece in (line[:10], line[10:]):
            ours.sendall(piece)
        assert type(said).from_line(read_line(theirs)) == said


def test_a_line_longer_than_the_sockets_buffer_arrives() -> None:
    said = EmulatorReport(trace_up=Trace(tuple(range(200_000))), trace_down=Trace((1,)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sending = threading.Thread(target=ours.sendall, args=(said.to_line(),))
        sending.start()
        assert EmulatorReport.from_line(read_line(theirs)) == said
        sending.join()


def test_hanging_up_is_an_empty_line() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert read_line(theirs) == b""
