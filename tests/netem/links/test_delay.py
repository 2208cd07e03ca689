"""netem.links.delay on a fake clock: the distribution, the trains, the order, the seeds."""

import random
import statistics

import pytest

from netem.links.delay import DelayLine, jitter_draws, mean_delay_ms
from netem.links.profile import Direction

FOUR_G = Direction(20e6, delay_ms=21, jitter_ms=19)
LONGER_THAN_ANY_DELAY_S = 10.0


def lone_message_delays_ms(direction: Direction, count: int, draws: random.Random) -> list[float]:
    line = DelayLine(direction, draws)
    sent_at = [number * LONGER_THAN_ANY_DELAY_S for number in range(count)]
    return [(line.deliver(at, at) - at) * 1000 for at in sent_at]


@pytest.mark.parametrize("direction", [FOUR_G, Direction(100e6, 10, 10), Direction(1e6, 0, 5)])
def test_lone_messages_follow_the_normal_distribution_with_negatives_at_zero(direction: Direction) -> None:
    delays = lone_message_delays_ms(direction, 20_000, jitter_draws(7, 0, "up"))
    reference_draws = random.Random("an independent reference")
    reference = [max(0.0, reference_draws.gauss(direction.delay_ms, direction.jitter_ms)) for _ in range(20_000)]
    assert min(delays) >= 0
    assert statistics.fmean(delays) == pytest.approx(mean_delay_ms(direction), rel=0.03)
    assert statistics.stdev(delays) == pytest.approx(statistics.stdev(reference), rel=0.03)
    assert statistics.median(delays) == pytest.approx(direction.delay_ms, rel=0.03, abs=0.2)


def test_4g_means_22_3_ms() -> None:
    assert mean_delay_ms(FOUR_G) == pytest.approx(22.3, abs=0.05)


def test_without_jitter_the_delay_is_exact() -> None:
    fixed = Direction(10e6, delay_ms=300)
    assert lone_message_delays_ms(fixed, 5, jitter_draws(0, 0, "up")) == pytest.approx([300.0] * 5)
    assert mean_delay_ms(fixed) == 300.0


def test_one_train_travels_with_one_draw() -> None:
    line = DelayLine(FOUR_G, jitter_draws(3, 0, "up"))
    transmitted = [0.0006 * (number + 1) for number in range(100)]
    travelled = [line.deliver(0.0, at) - at for at in transmitted]
    assert travelled == pytest.approx([travelled[0]] * 100)


def test_a_packet_that_arrives_while_the_train_is_transmitted_belongs_to_it() -> None:
    line = DelayLine(FOUR_G, jitter_draws(3, 0, "up"))
    first = line.deliver(0.0, 0.05) - 0.05
    second = line.deliver(0.04, 0.06) - 0.06
    after_the_link_fell_idle = line.deliver(10.0, 10.01) - 10.01
    assert second == pytest.approx(first)
    assert after_the_link_fell_idle != pytest.approx(first)


def test_order_is_kept_however_the_draws_fall() -> None:
    line, gaps = DelayLine(FOUR_G, jitter_draws(5, 0, "up")), random.Random(5)
    now, deliveries = 0.0, []
    for _ in range(5_000):
        now += gaps.expovariate(1 / 0.005)
        deliveries.append(line.deliver(now, now + 0.0001))
        assert deliveries[-1] >= now
    assert deliveries == sorted(deliveries)


def test_the_seed_the_connection_and_the_way_decide_the_draws() -> None:
    def delays(seed: int, connection: int, way: str) -> list[float]:
        return lone_message_delays_ms(FOUR_G, 10, jitter_draws(seed, connection, way))

    assert delays(1, 0, "up") == delays(1, 0, "up")
    others = [delays(2, 0, "up"), delays(1, 1, "up"), delays(1, 0, "down")]
    assert all(other != delays(1, 0, "up") for other in others)


def test_a_stall_delays_what_follows_too() -> None:
    line = DelayLine(Direction(10e6, delay_ms=20), jitter_draws(0, 0, "up"))
    assert line.deliver(0.0, 0.001, stall_s=0.5) == pytest.approx(0.521)
    assert line.deliver(0.1, 0.101) == pytest.approx(0.521)
    assert line.deliver(2.0, 2.001) == pytest.approx(2.021)
