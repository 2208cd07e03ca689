"""Arguments of the kernel's sch_netem for a profile, and its statistics. Pure text.

Its limits: sch_netem draws jitter for each packet and not for each train; seeds are ignored, because not every kernel
can seed it; it keeps packets in order only where a rate is given; it has no traces and no outages.
"""

import json

from common.protocol.errors import MisuseError
from netem.links.namespaces.messages import PacketCounters
from netem.links.profile import Direction, LinkProfile

_PACKET_BYTES = 1500
_BITS_PER_BYTE = 8
_MS_PER_S = 1000.0
_UNLIMITED_PACKETS = 1_000_000


def require_expressible(profile: LinkProfile) -> None:
    """Raises MisuseError for a link that sch_netem cannot emulate."""
    if profile.outages.gaps or profile.up.trace or profile.down.trace:
        raise MisuseError("the tc backend knows neither outages nor traces: use --backend tun or proxy")
    if any(way.loss and way.bursts for way in (profile.up, profile.down)):
        raise MisuseError("the tc backend has random or bursty loss, not both: use --backend tun or proxy")


def netem_arguments(direction: Direction) -> list[str]:
    """The arguments behind `tc qdisc add dev DEVICE root`."""
    arguments = ["netem", "limit", str(_limit_packets(direction)), "delay", f"{direction.delay_ms:g}ms"]
    if direction.jitter_ms:
        arguments += [f"{direction.jitter_ms:g}ms", "distribution", "normal"]
    if direction.loss:
        arguments += ["loss", "random", f"{direction.loss:.6%}"]
    if direction.bursts:
        bursts = direction.bursts
        probabilities = (bursts.to_bad, bursts.to_good, bursts.loss_bad, bursts.loss_good)
        arguments += ["loss", "gemodel", *(f"{probability:.6%}" for probability in probabilities)]
    if direction.rate_bits_per_s:
        arguments += ["rate", f"{direction.rate_bits_per_s:.0f}bit"]
    return arguments


def counters_of(statistics: str) -> PacketCounters:
    """The counters in the JSON that `tc -s -j qdisc show dev DEVICE` prints."""
    (discipline,) = json.loads(statistics)
    return PacketCounters(packets=discipline["packets"], bytes=discipline["bytes"], dropped=discipline["drops"])


def _limit_packets(direction: Direction) -> int:
    """The queue in packets; sch_netem's only limit counts the packets in its delay too."""
    if direction.queue_bytes is None or direction.rate_bits_per_s is None:
        return _UNLIMITED_PACKETS
    delayed_bytes = direction.rate_bits_per_s / _BITS_PER_BYTE * direction.delay_ms / _MS_PER_S
    return round((direction.queue_bytes + delayed_bytes) / _PACKET_BYTES)
