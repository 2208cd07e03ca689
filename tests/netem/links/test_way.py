"""netem.links.way on a fake clock: the faults together, on the way of a packet."""

import random
from dataclasses import replace

import pytest

from netem.links.burst_loss import Bursts
from netem.links.outages import NEVER, Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import PROFILES, find_profile
from netem.links.trace import Trace
from netem.links.way import Way, both_ways

PACKET_BYTES = 1500
ONE_PACKET_S = 0.012
ONE_MEGABIT = Direction(1e6, delay_ms=50)


def way(direction: Direction, outages: Outages = NEVER, seed: int = 0) -> Way:
    return Way(direction, outages, seed, "up")


def test_a_lone_packet_takes_its_transmission_and_the_delay() -> None:
    assert way(ONE_MEGABIT).send(PACKET_BYTES, 3.0) == pytest.approx(3.0 + ONE_PACKET_S + 0.05)


def test_packets_wait_for_each_other_at_the_transmitter_and_not_on_the_way() -> None:
    link = way(ONE_MEGABIT)
    assert [link.send(PACKET_BYTES, 0.0) for _ in range(3)] == pytest.approx(
        [number * ONE_PACKET_S + 0.05 for number in (1, 2, 3)]
    )


def test_what_finds_the_queue_full_is_dropped_and_takes_no_rate() -> None:
    link = way(replace(ONE_MEGABIT, queue_bytes=2 * PACKET_BYTES))
    arrivals = [link.send(PACKET_BYTES, 0.0) for _ in range(4)]
    assert arrivals[2:] == [None, None]
    assert link.send(PACKET_BYTES, ONE_PACKET_S) == pytest.approx(3 * ONE_PACKET_S + 0.05)


def test_what_is_lost_has_taken_its_rate() -> None:
    link = way(replace(ONE_MEGABIT, loss=0.5))
    arrivals = [link.send(PACKET_BYTES, 0.0) for _ in range(200)]
    survivors = [number for number, arrival in enumerate(arrivals) if arrival is not None]
    assert 60 < len(survivors) < 140
    assert all(arrivals[number] == pytest.approx((number + 1) * ONE_PACKET_S + 0.05) for number in survivors)


def test_in_an_outage_packets_wait_in_the_queue_and_overflow_it() -> None:
    link = way(replace(ONE_MEGABIT, queue_bytes=2 * PACKET_BYTES), Outages(((1.0, 4.0),)))
    during = [link.send(PACKET_BYTES, at_s) for at_s in (1.0, 2.0, 3.0)]
    assert during[:2] == pytest.approx([4.0 + ONE_PACKET_S + 0.05, 4.0 + 2 * ONE_PACKET_S + 0.05])
    assert during[2] is None


def test_an_outage_interrupts_what_is_being_transmitted() -> None:
    link = way(ONE_MEGABIT, Outages(((ONE_PACKET_S / 2, 1.0),)))
    assert link.send(PACKET_BYTES, 0.0) == pytest.approx(1.0 + ONE_PACKET_S / 2 + 0.05)


def test_a_trace_takes_the_place_of_the_rate() -> None:
    link = way(Direction(delay_ms=50, trace=Trace((10, 20))))
    assert [link.send(PACKET_BYTES, 0.0) for _ in range(3)] == pytest.approx([0.06, 0.07, 0.08])


@pytest.mark.parametrize("name", PROFILES)
def test_on_every_profile_order_is_kept_and_nothing_comes_before_it_was_sent(name: str) -> None:
    for link in both_ways(find_profile(name)):
        gaps, now_s, arrivals = random.Random(name), 0.0, [0.0]
        for _ in range(3000):
            now_s += gaps.expovariate(1 / 0.004)
            arrival_s = link.send(gaps.randint(40, PACKET_BYTES), now_s)
            if arrival_s is not None:
                assert arrival_s >= now_s
                arrivals.append(arrival_s)
        assert arrivals == sorted(arrivals)
        assert len(arrivals) > 2000


def test_the_seed_decides_everything() -> None:
    faulty = Direction(1e6, 50, 20, loss=0.1, bursts=Bursts(0.05, 0.5, 0.5, 0.0), queue_bytes=30_000)

    def arrivals(seed: int) -> list[float | None]:
        link = way(faulty, Outages(((0.5, 0.7),), 1.0), seed)
        return [link.send(PACKET_BYTES, number * 0.01) for number in range(500)]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


def test_the_two_ways_have_draws_of_their_own() -> None:
    lossy = Direction(1e6, 50, 20, loss=0.5)
    up, down = both_ways(LinkProfile("lossy", "a link for a test", lossy, lossy))
    assert [up.send(100, float(at)) for at in range(50)] != [down.send(100, float(at)) for at in range(50)]
