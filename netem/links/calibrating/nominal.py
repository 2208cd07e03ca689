"""The round-trip time that a profile implies. Pure."""

import math
import random
from statistics import median

from netem.links.profile import Direction, LinkProfile

_DRAWS = 20_001
_MS_PER_S = 1000.0
_BITS_PER_BYTE = 8


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


def _draw_ms(direction: Direction, draws: random.Random) -> float:
    return max(0.0, draws.gauss(direction.delay_ms, direction.jitter_ms))


def _transmission_ms(direction: Direction, size_bytes: int) -> float:
    rate = direction.mean_rate_bits_per_s
    return 0.0 if rate is None else size_bytes * _BITS_PER_BYTE / rate * _MS_PER_S
