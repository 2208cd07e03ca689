"""What carries packets between two descriptors, without a namespace or a device."""

import os
import sys
import time
from contextlib import suppress

import pytest

from netem.links.namespaces.emulator import Carrier
from netem.links.outages import NEVER
from netem.links.profile import Direction
from netem.links.way import Way

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the backend is for Linux")

PACKET = b"\x45" + bytes(99)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_packet_that_a_full_receiver_loses_counts_as_dropped_and_not_as_delivered(is_full: bool) -> None:
    (source, entrance), (out, sink) = os.pipe(), os.pipe()
    try:
        for descriptor in (source, sink):
            os.set_blocking(descriptor, False)
        if is_full:
            with suppress(BlockingIOError):
                while True:
                    os.write(sink, bytes(4096))
        carrier = Carrier(source, sink, Way(Direction(delay_ms=0.0), NEVER, 0, "up"), None)
        began_s = time.monotonic() - 1.0
        os.write(entrance, PACKET)
        carrier.take_in(began_s)
        carrier.give_out(began_s - 1.0)
        counted = carrier.counters
        assert (counted.packets, counted.bytes, counted.dropped) == ((0, 0, 1) if is_full else (1, 100, 0))
    finally:
        for descriptor in (source, entrance, out, sink):
            os.close(descriptor)
