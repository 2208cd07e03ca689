"""Measures a profile on a backend: which quantity by which means, for how long, in which order."""

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Self

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links.backends import PROXY, TUN, LinkRequest, find_backend
from netem.links.calibrating.calibration import Calibration, DirectionMeasured, RoundTrips
from netem.links.calibrating.datagrams import Datagrams
from netem.links.calibrating.nominal import chance_loss, median_rtt_ms, rtt_spread_ms
from netem.links.calibrating.streams import FarEnd
from netem.links.errors import LinkFailureError
from netem.links.outages import NEVER
from netem.links.profile import Direction, LinkProfile
from netem.links.tun import TunLink

_PING_BYTES = 64
_FEWEST_PINGS = 20
# The wanted sampling error of the median, relative to the median.
_MEDIAN_ERROR = 0.025
# The standard error of a normal sample's median over that of its mean.
_MEDIAN_INEFFICIENCY = 1.25
# More than the link carries, so that its transmitter never falls idle.
_OVERLOAD = 1.2
# Low enough that no queue forms, in packets small enough to be many, and no more of them than a machine can count.
_SPARE_LOAD = 0.5
_LOSS_PACKET_BYTES = 150
_MOST_PACKETS_PER_S = 4000
_PATIENCE_S = 0.25
_BITS_PER_BYTE = 8
_MS_PER_S = 1000.0
# A bulk connection is past its start after so many round trips.
_WARM_ROUND_TRIPS = 12
_SHORTEST_WARM_S = 0.5


async def calibrate(
    profile: LinkProfile, backend: str = TUN, *, congestion: str | None = None, quick: bool = False
) -> Calibration:
    """Measures for about a minute; quick: for a third of that, with fewer pings than the jitter needs.

    The profile's outages are left out: its figures hold between them. congestion: the TCP congestion control; None
    keeps the system's.
    Raises LinkFailureError where the backend does not work here, or the link carries nothing.
    """
    return await measure(MeasuringPlan.quick(profile) if quick else MeasuringPlan(profile), backend, congestion)


@dataclass(frozen=True)
class MeasuringPlan:
    """How long each quantity is measured on a profile.

    seconds: the duration of each packet count and the shortest one of each bulk connection. longest_warm_s: the longest
    time that a bulk connection gets to find its rate. stalls_watched: on a lossy link a bulk connection is measured for
    at least so many round trips.
    """

    profile: LinkProfile
    seconds: float = 5.0
    most_pings: int = 800
    longest_warm_s: float = 8.0
    stalls_watched: int = 25

    @classmethod
    def quick(cls, profile: LinkProfile) -> Self:
        """A shorter plan, with fewer pings than the jitter needs."""
        return cls(profile, seconds=1.5, most_pings=60, longest_warm_s=4.0, stalls_watched=0)

    @property
    def nominal_rtt_ms(self) -> float:
        return median_rtt_ms(self.profile, _PING_BYTES)

    @property
    def pings(self) -> int:
        """As many as the jitter needs for the wanted error of the median, at most `most_pings`."""
        relative_spread = rtt_spread_ms(self.profile) / max(self.nominal_rtt_ms, 1.0)
        requested = math.ceil((_MEDIAN_INEFFICIENCY * relative_spread / _MEDIAN_ERROR) ** 2)
        return max(_FEWEST_PINGS, min(requested, self.most_pings))

    @property
    def warm_s(self) -> float:
        """How long a bulk connection runs before it is measured."""
        wanted_s = max(_SHORTEST_WARM_S, _WARM_ROUND_TRIPS * self.nominal_rtt_ms / _MS_PER_S)
        return min(wanted_s, self.longest_warm_s)

    @property
    def bulk_s(self) -> float:
        """How long a bulk connection is measured: on a lossy link many times the length of a stall."""
        is_lossy = self.profile.up.mean_loss or self.profile.down.mean_loss
        stalls_s = self.stalls_watched * self.nominal_rtt_ms / _MS_PER_S
        return max(self.seconds, stalls_s) if is_lossy else self.seconds

    def drain_s(self, direction: Direction) -> float:
        """The time until a full queue has been transmitted and delivered."""
        rate = direction.mean_rate_bits_per_s
        queue_s = direction.queue_bytes * _BITS_PER_BYTE / rate if direction.queue_bytes and rate else 0.0
        return queue_s + (direction.delay_ms + 5 * direction.jitter_ms) / _MS_PER_S + _PATIENCE_S


async def measure(plan: MeasuringPlan, backend: str, congestion: str | None = None) -> Calibration:
    """As `calibrate`, with any plan."""
    if backend not in (PROXY, TUN):
        raise MisuseError(f"calibration knows the backends {TUN} and {PROXY}, not '{backend}': choose one of them")
    far_end = FarEnd()
    uninterrupted = replace(plan.profile, outages=NEVER)
    async with (
        far_end.running() as target,
        find_backend(backend)(LinkRequest(uninterrupted, target, congestion=congestion)) as link,
    ):
        if isinstance(link, TunLink):
            return await _on_packets(plan, link, far_end)
        return await _on_streams(plan, link.address, far_end)


async def _on_streams(plan: MeasuringPlan, link: Address, far_end: FarEnd) -> Calibration:
    profile = plan.profile
    times_ms = await far_end.ping_ms(link, plan.pings, _PING_BYTES)
    up = await far_end.rate_up(link, plan.warm_s, plan.bulk_s)
    down = await far_end.rate_down(link, plan.warm_s, plan.bulk_s)
    return Calibration(
        profile.name,
        PROXY,
        "none: TCP ends at both sides",
        RoundTrips.of(times_ms),
        plan.nominal_rtt_ms,
        DirectionMeasured(up, profile.up.mean_rate_bits_per_s, up, None, profile.up.mean_loss, None),
        DirectionMeasured(down, profile.down.mean_rate_bits_per_s, down, None, profile.down.mean_loss, None),
        None,
    )


async def _on_packets(plan: MeasuringPlan, link: TunLink, far_end: FarEnd) -> Calibration:
    with Datagrams(link.near, link.far) as datagrams:
        patience_s = _PATIENCE_S + 5 * plan.nominal_rtt_ms / _MS_PER_S
        times_ms = await asyncio.to_thread(datagrams.ping_ms, plan.pings, _PING_BYTES, patience_s)
        if len(times_ms) < _FEWEST_PINGS / 2:
            raise LinkFailureError(
                f"{plan.profile.name} answered {len(times_ms)} pings of {plan.pings}: choose another"
            )
        up = await asyncio.to_thread(_count_packets, plan, datagrams, True)
        down = await asyncio.to_thread(_count_packets, plan, datagrams, False)
    report = await link.report()
    goodput_up = await far_end.rate_up(link.address, plan.warm_s, plan.bulk_s)
    goodput_down = await far_end.rate_down(link.address, plan.warm_s, plan.bulk_s)
    return Calibration(
        plan.profile.name,
        TUN,
        link.congestion,
        RoundTrips.of(times_ms),
        plan.nominal_rtt_ms,
        replace(up, tcp_goodput=goodput_up),
        replace(down, tcp_goodput=goodput_down),
        report.up.late + report.down.late,
    )


def _count_packets(plan: MeasuringPlan, datagrams: Datagrams, up: bool) -> DirectionMeasured:
    direction = plan.profile.up if up else plan.profile.down
    drain_s = plan.drain_s(direction)
    nominal_rate = direction.mean_rate_bits_per_s
    most_bits_per_s = _MOST_PACKETS_PER_S * _LOSS_PACKET_BYTES * _BITS_PER_BYTE
    spare_bits_per_s = min(most_bits_per_s, _SPARE_LOAD * (nominal_rate or math.inf))
    sparse = datagrams.flood(up, spare_bits_per_s, plan.seconds, drain_s, _LOSS_PACKET_BYTES)
    loss = 1 - sparse.received / sparse.sent
    rate = None
    if nominal_rate is not None:
        # A packet that is lost after transmission has used the rate too.
        carried = datagrams.flood(up, _OVERLOAD * nominal_rate, plan.seconds, drain_s).rate_bits_per_s
        rate = carried / (1 - direction.mean_loss)
    chance = chance_loss(direction, sparse.sent)
    return DirectionMeasured(rate, nominal_rate, 0.0, loss, direction.mean_loss, chance)
