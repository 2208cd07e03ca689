"""netem.links.bottleneck: the rate of a transmitter on a fake clock, and the room in a queue."""

import random

import pytest

from netem.links.bottleneck import ByteQueue, LineRate
from netem.links.outages import Outages


@pytest.mark.parametrize("rate_bits_per_s", [1e6, 20e6, 100e6])
def test_a_saturated_line_carries_its_rate(rate_bits_per_s: float) -> None:
    line, sizes = LineRate(rate_bits_per_s), random.Random(1)
    sent_bytes = 0
    transmitted_s = 0.0
    while transmitted_s < 1.0:
        size = sizes.randint(1, 1500)
        transmitted_s = line.send(size, arrival_s=0.0)
        sent_bytes += size
    assert sent_bytes * 8 / transmitted_s == pytest.approx(rate_bits_per_s, rel=0.02)


def test_an_idle_line_saves_nothing_up() -> None:
    line = LineRate(8e3)
    assert line.send(500, arrival_s=0.0) == pytest.approx(0.5)
    assert line.send(500, arrival_s=100.0) == pytest.approx(100.5)


def test_a_large_payload_comes_out_spread_over_its_transmission() -> None:
    line = LineRate(20e6)
    transmitted_s = [line.send(1500, arrival_s=0.0) for _ in range(100)]
    assert transmitted_s[0] == pytest.approx(0.0006)
    assert transmitted_s[-1] == pytest.approx(0.06)


def test_backlog_is_what_waits_and_drains_with_time() -> None:
    line = LineRate(8e3)
    assert line.backlog_s(0.0) == 0.0
    line.send(1000, arrival_s=0.0)
    assert line.backlog_s(0.25) == pytest.approx(0.75)
    assert line.backlog_s(5.0) == 0.0


def test_an_unlimited_line_takes_no_time() -> None:
    line = LineRate(None)
    assert line.send(10**9, arrival_s=3.0) == 3.0
    assert line.backlog_s(3.0) == 0.0


def test_an_outage_halts_what_is_being_transmitted() -> None:
    line = LineRate(8e3, Outages(((1.0, 3.0),)))
    assert line.send(1500, arrival_s=0.0) == pytest.approx(3.5)
    assert line.send(500, arrival_s=2.0) == pytest.approx(4.0)


def test_an_outage_holds_back_what_takes_no_time() -> None:
    assert LineRate(None, Outages(((1.0, 3.0),))).send(10, arrival_s=2.0) == pytest.approx(3.0)


def test_a_full_queue_takes_nothing_until_something_has_left() -> None:
    queue = ByteQueue(3000)
    for leaves_s in (1.0, 2.0):
        assert queue.has_room(1500, 0.0)
        queue.enter(1500, leaves_s)
    assert not queue.has_room(1500, 0.5)
    assert not queue.has_room(1, 0.5)
    assert queue.has_room(1500, 1.0)
    assert not queue.has_room(1501, 1.0)


def test_an_empty_queue_takes_a_packet_larger_than_itself() -> None:
    queue = ByteQueue(100)
    assert queue.has_room(1500, 0.0)
    queue.enter(1500, 1.0)
    assert not queue.has_room(1, 0.0)
    assert queue.has_room(1500, 1.0)


def test_without_a_limit_there_is_always_room() -> None:
    queue = ByteQueue(None)
    for _ in range(1000):
        queue.enter(1500, 1e9)
    assert queue.has_room(10**9, 0.0)
