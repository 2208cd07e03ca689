"""The table of named link profiles, with the sources of their numbers. Data and its lookup only.

4g and 5g carry the delay, jitter and loss of the Mixture of Attentions paper (arXiv 2410.03804). That paper gives 4G
20 Mbit/s and 5G no rate; 5g takes the 100 Mbit/s of a 3GPP-style urban cell. lte-drive and lte-flaky are what mosh's
authors measured on a drive. urban-5g, cell-edge, congested and satellite are 3GPP-style values; all delays here are
one way, except that the 600 ms of satellite can only be a round trip over a geostationary orbit: half of it each way.
The bursty links have the Gilbert-Elliott parameters that were fitted to LTE and 5G.

Queues have the sizes that were published with lte-asymmetric, in packets of 1500 bytes. Elsewhere nobody gives one:
they hold one round trip at full rate, and at least 100 ms of it.
"""

from dataclasses import replace

from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError
from netem.links.burst_loss import Bursts
from netem.links.outages import NEVER, Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.schedules import lte_handovers, nr_handovers, tunnel

_MEGABIT = 1_000_000.0
_PACKET_BYTES = 1500
_BITS_PER_BYTE = 8
_MS_PER_S = 1000.0
_SHORTEST_QUEUE_MS = 100.0


def _radio(rate_bits_per_s: float, delay_ms: float, jitter_ms: float = 0.0, loss: float = 0.0) -> Direction:
    queue_ms = max(_SHORTEST_QUEUE_MS, 2 * delay_ms)
    queue_bytes = round(rate_bits_per_s / _BITS_PER_BYTE * queue_ms / _MS_PER_S)
    return Direction(rate_bits_per_s, delay_ms, jitter_ms, loss, queue_bytes=queue_bytes)


def _symmetric(name: str, description: str, way: Direction, outages: Outages = NEVER) -> LinkProfile:
    return LinkProfile(name, description, up=way, down=way, outages=outages)


_4G = _radio(20 * _MEGABIT, 21, 19, 0.001)
_5G = _radio(100 * _MEGABIT, 10, 10, 0.001)
_LTE_DRIVE = _radio(26 * _MEGABIT, 44.5, 0.11 * 44.5)
_URBAN_5G = _radio(100 * _MEGABIT, 20, loss=0.001)
_LTE_BURSTS = Bursts(to_bad=0.006, to_good=0.33, loss_bad=0.5, loss_good=0.0005)
_5G_BURSTS = Bursts(to_bad=0.0039, to_good=0.40, loss_bad=0.5, loss_good=0.0002)

PROFILES = {
    profile.name: profile
    for profile in (
        _symmetric("4g", "a phone on 4G", _4G),
        _symmetric("5g", "a phone on 5G", _5G),
        _symmetric("lte-drive", "LTE from a moving car", _LTE_DRIVE),
        _symmetric("lte-flaky", "LTE that barely holds", _radio(3 * _MEGABIT, 67.5, 0.30 * 67.5, 0.063)),
        LinkProfile(
            "lte-asymmetric",
            "LTE with deep queues",
            up=Direction(40 * _MEGABIT, 30, queue_bytes=350 * _PACKET_BYTES),
            down=Direction(38 * _MEGABIT, 10, queue_bytes=1000 * _PACKET_BYTES),
        ),
        _symmetric("lte-bursty", "lte-drive, losses in bursts", replace(_LTE_DRIVE, bursts=_LTE_BURSTS)),
        _symmetric("5g-bursty", "5g, losses in bursts", replace(_5G, loss=0.0, bursts=_5G_BURSTS)),
        _symmetric("urban-5g", "a 5G cell in a city", _URBAN_5G),
        _symmetric("cell-edge", "far from the mast", _radio(5 * _MEGABIT, 120, loss=0.01)),
        _symmetric("congested", "a stadium", _radio(1 * _MEGABIT, 200, loss=0.03)),
        _symmetric("satellite", "a geostationary satellite", _radio(10 * _MEGABIT, 300, loss=0.005)),
        _symmetric("handover-lte", "lte-drive from cell to cell", _LTE_DRIVE, lte_handovers(seed=0)),
        _symmetric("handover-5g", "urban-5g from cell to cell", _URBAN_5G, nr_handovers(seed=0)),
        _symmetric("tunnel", "4g with a tunnel", _4G, tunnel(first_s=40, lasts_s=30, every_s=120)),
        _symmetric("lan", "a wired office network", _radio(100 * _MEGABIT, 0)),
        _symmetric("none", "no link, only the emulation", Direction()),
    )
}


def find_profile(name: str) -> LinkProfile:
    """The profile of that name, in upper or lower case. Raises MisuseError for an unknown name, with the nearest
    one."""
    profile = PROFILES.get(name.lower())
    if profile is None:
        advice = did_you_mean(name.lower(), PROFILES) or f"choose one of {', '.join(PROFILES)}"
        raise MisuseError(f"there is no link profile '{name}': {advice}")
    return profile
