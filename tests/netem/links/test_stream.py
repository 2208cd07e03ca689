"""netem.links.stream on a fake clock: losses as stalls."""

from dataclasses import replace

import pytest

from netem.links.profile import Direction, LinkProfile
from netem.links.stream import StreamLink

CLEAN = Direction(12e6, delay_ms=50)
ONE_PACKET_S = 0.001
ROUND_TRIP_S = 0.1


def symmetric(direction: Direction) -> LinkProfile:
    return LinkProfile("test", "a link for a test", direction, direction)


def delays_s(direction: Direction, count: int, apart_s: float) -> list[float]:
    up, _ = StreamLink(symmetric(direction)).connect(0)
    return [up.send(1500, number * apart_s) - number * apart_s for number in range(count)]


def test_without_loss_it_is_rate_and_delay() -> None:
    assert delays_s(CLEAN, 5, apart_s=1.0) == pytest.approx([ONE_PACKET_S + 0.05] * 5)


def test_a_lost_packet_comes_one_round_trip_late_and_doubles_with_each_repeat() -> None:
    delays = delays_s(replace(CLEAN, loss=0.3), 2000, apart_s=100.0)
    stalls = [round((delay - ONE_PACKET_S - 0.05) / ROUND_TRIP_S) for delay in delays]
    assert {0, 1, 3, 7} <= set(stalls) <= {2**losses - 1 for losses in range(12)}
    assert stalls.count(0) / len(stalls) == pytest.approx(0.7, rel=0.05)
    assert stalls.count(1) / len(stalls) == pytest.approx(0.21, rel=0.1)


def test_what_follows_a_loss_waits_for_it() -> None:
    up, _ = StreamLink(symmetric(replace(CLEAN, loss=0.05))).connect(0)
    arrivals = [up.send(1500, number * 0.005) for number in range(2000)]
    assert arrivals == sorted(arrivals)
    stalled = next(at for at, arrival in enumerate(arrivals) if arrival - at * 0.005 > ROUND_TRIP_S)
    assert arrivals[stalled + 1] == pytest.approx(arrivals[stalled])


def test_connections_share_the_rate_and_not_the_jitter() -> None:
    link = StreamLink(symmetric(replace(CLEAN, jitter_ms=20)))
    (first, _), (second, _) = link.connect(0), link.connect(1)
    jitter = [first.send(1500, 0.0) - ONE_PACKET_S, second.send(1500, 0.0) - 2 * ONE_PACKET_S]
    assert jitter[0] != pytest.approx(jitter[1])
    assert second.backlog_s(0.0) == pytest.approx(2 * ONE_PACKET_S)


def test_a_full_queue_drops_nothing() -> None:
    up, _ = StreamLink(symmetric(replace(CLEAN, queue_bytes=1500))).connect(0)
    assert up.send(150_000, 0.0) == pytest.approx(100 * ONE_PACKET_S + 0.05)
    assert up.send(1500, 0.0) == pytest.approx(101 * ONE_PACKET_S + 0.05)
