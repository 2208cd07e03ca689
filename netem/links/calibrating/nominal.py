"""The round-trip time that a profile implies, and how far a measured loss may be off by chance. Pure."""

import math
import random
from statistics import median

from netem.links.profile import Direction, LinkProfile

_DRAWS = 20_001
_MS_PER_S = 1000.0
_BITS_PER_BYTE = 8
_FALSE_ALARM = 1e-4


def median_rtt_ms(profile: LinkProfile, ping_bytes: int) -> float:
    """The median round-trip time of a single packet and its echo, in milliseconds.

    The median of a sum of truncated normal distributions has no formula, so it is simulated with a fixed seed.
    """
    draws = random.Random("median round trip")
    sent_ms = _transmission_ms(profile.up, ping_bytes) + _transmission_ms(profile.down, ping_bytes)
    return sent_ms + median(_draw_ms(profile.up, draws) + _draw_ms(profile.down, draws) for _ in range(_DRAWS))


def rtt_spread_ms(profile: LinkProfile) -> float:
    """About the standard deviation of a round-trip time, in milliseconds."""
    return math.hypot(profile.up.jitter_ms, profile.down.jitter_ms)


def chance_loss(direction: Direction, packets: int) -> float:
    """How far the lost share of so many packets may be off the direction's mean loss by chance: it is farther off in
    one of 10,000 measurements, by Bernstein's inequality. That holds for independent losses; bursts widen the spread by
    what losses have in common."""
    mean, bursts = direction.mean_loss, direction.bursts
    together = 2 * (1 - direction.loss) ** 2 * bursts.covariance if bursts else 0.0
    spread, bits = packets * max(0.0, mean * (1 - mean) + together), math.log(2 / _FALSE_ALARM)
    return (math.sqrt(2 * spread * bits) + bits / 3) / packets


def _draw_ms(direction: Direction, draws: random.Random) -> float:
    return max(0.0, draws.gauss(direction.delay_ms, direction.jitter_ms))


def _transmission_ms(direction: Direction, size_bytes: int) -> float:
    rate = direction.mean_rate_bits_per_s
    return 0.0 if rate is None else size_bytes * _BITS_PER_BYTE / rate * _MS_PER_S
