"""What to tell the kernel's sch_netem, so that it does what a profile says; and what it says. Pure text.

sch_netem draws jitter for each packet, not for each train; its draws cannot be seeded everywhere, so seeds are not
kept; and it keeps the order only because it is given a rate. Traces and outages it does not know.
"""

import json

from common.protocol.errors import MisuseError
from netem.links.namespaces.talk import Counters
from netem.links.profile import Direction, LinkProfile

_PACKET_BYTES = 1500
_BITS_PER_BYTE = 8
_MS_PER_S = 1000.0
_UNLIMITED_PACKETS = 1_000_000


def require_expressible(profile: LinkProfile) -> None:
    """Raises MisuseError for a link that sch_netem cannot imitate."""
    if profile.outages.gaps or profile.up.trace or profile.down.trace:
        raise MisuseError("the tc backend knows neither outages nor traces: use --backend tun or proxy")
    if any(way.loss and way.bursts for way in (profile.up, profile.down)):
        raise MisuseError("the tc backend has random or bursty loss, not both: use --backend tun or proxy")


def netem_arguments(direction: Direction) -> list[str]:
    """What follows `tc qdisc add dev DEVICE root`."""
    arguments = ["netem", "limit", str(_limit_packets(direction)), "delay", f"{direction.delay_ms:g}ms"]
    if direction.jitter_ms:
        arguments += [f"{direction.jitter_ms:g}ms", "distribution", "normal"]
    if direction.loss:
        arguments += ["loss", "random", f"{direction.loss:.6%}"]
    if direction.bursts:
        bursts = direction.bursts
        chances = (bursts.to_bad, bursts.to_good, bursts.loss_bad, bursts.loss_good)
        arguments += ["loss", "gemodel", *(f"{chance:.6%}" for chance in chances)]
    if direction.rate_bits_per_s:
        arguments += ["rate", f"{direction.rate_bits_per_s:.0f}bit"]
    return arguments


def counters_of(statistics: str) -> Counters:
    """Reads `tc -s -j qdisc show dev DEVICE`."""
    (discipline,) = json.loads(statistics)
    return Counters(packets=discipline["packets"], bytes=discipline["bytes"], dropped=discipline["drops"])


def _limit_packets(direction: Direction) -> int:
    """sch_netem's one limit counts what is delayed too."""
    if direction.queue_bytes is None or direction.rate_bits_per_s is None:
        return _UNLIMITED_PACKETS
    delayed_bytes = direction.rate_bits_per_s / _BITS_PER_BYTE * direction.delay_ms / _MS_PER_S
    return round((direction.queue_bytes + delayed_bytes) / _PACKET_BYTES)
