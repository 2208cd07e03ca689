"""Makes Mahimahi traces from profiles, with the profile's outages, and with a varying rate as on a drive.

Pure: every random number derives from a seed. Knows no files.
"""

import math
import random
from collections.abc import Iterator

from common.protocol.errors import MisuseError
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.trace import OPPORTUNITY_BYTES, Trace

_BITS_PER_BYTE = 8
_MS_PER_S = 1000
# A drive's rate wanders in log space, pulled back to its mean: mostly a third to three times of it, over seconds.
_DRIVE_SPREAD = 0.6
_DRIVE_MEMORY_S = 3.0


def traces_of(profile: LinkProfile, seconds: int, drive_seed: int | None = None) -> tuple[Trace, Trace]:
    """The traces up and down of the first `seconds` of a link. drive_seed: vary the rate as on a drive; None: constant.

    Raises MisuseError for a link without a rate.
    """
    return (
        _trace_of(profile.up, profile.outages, seconds, None if drive_seed is None else f"{drive_seed}/up"),
        _trace_of(profile.down, profile.outages, seconds, None if drive_seed is None else f"{drive_seed}/down"),
    )


def _trace_of(direction: Direction, outages: Outages, seconds: int, drive_seed: str | None) -> Trace:
    if direction.mean_rate_bits_per_s is None:
        raise MisuseError("a link of unlimited rate has no trace: choose a profile with a rate")
    packets_per_ms = direction.mean_rate_bits_per_s / _BITS_PER_BYTE / OPPORTUNITY_BYTES / _MS_PER_S
    factors = _steady() if drive_seed is None else _drive(random.Random(drive_seed))
    moments: list[int] = []
    offered = 0.0
    for moment in range(1, seconds * _MS_PER_S + 1):
        factor = next(factors)
        if outages.resume_s(moment / _MS_PER_S) > moment / _MS_PER_S:
            continue
        offered += packets_per_ms * factor
        moments += [moment] * int(offered)
        offered -= int(offered)
    if moments and outages.resume_s(seconds) > seconds:
        # The last opportunity is the period too: without one here, what ends in an outage would repeat without it.
        moments.append(seconds * _MS_PER_S)
    return Trace(tuple(moments))


def _steady() -> Iterator[float]:
    while True:
        yield 1.0


def _drive(draws: random.Random) -> Iterator[float]:
    """An Ornstein-Uhlenbeck walk, one step per millisecond; the factor's mean is 1."""
    kept = math.exp(-1 / (_DRIVE_MEMORY_S * _MS_PER_S))
    step = _DRIVE_SPREAD * math.sqrt(1 - kept * kept)
    state = draws.gauss(0, _DRIVE_SPREAD)
    while True:
        yield math.exp(state - _DRIVE_SPREAD**2 / 2)
        state = kept * state + draws.gauss(0, step)
