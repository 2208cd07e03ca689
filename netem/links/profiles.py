"""The table of links that have a name, with where their numbers come from. Data and its lookup only.

4g and 5g carry the delay and jitter of the Mixture of Attentions paper (arXiv 2410.03804). That paper gives 4G
20 Mbit/s and 5G no rate; 5g takes the 100 Mbit/s of a 3GPP-style urban cell. The 600 ms of satellite are a round
trip over a geostationary satellite, half of it each way.
"""

import difflib

from common.protocol.errors import MisuseError
from netem.links.profile import Direction, LinkProfile

_MEGABIT = 1_000_000.0


def _symmetric(name: str, description: str, way: Direction) -> LinkProfile:
    return LinkProfile(name, description, up=way, down=way)


PROFILES = {
    profile.name: profile
    for profile in (
        _symmetric("4g", "a phone on 4G", Direction(20 * _MEGABIT, delay_ms=21, jitter_ms=19)),
        _symmetric("5g", "a phone on urban 5G", Direction(100 * _MEGABIT, delay_ms=10, jitter_ms=10)),
        _symmetric("satellite", "a geostationary satellite", Direction(10 * _MEGABIT, delay_ms=300)),
        _symmetric("lan", "a wired office network", Direction(100 * _MEGABIT)),
        _symmetric("none", "no link at all, only what emulating one costs", Direction()),
    )
}


def find_profile(name: str) -> LinkProfile:
    """The profile of that name, in any case. Raises MisuseError with near matches where there is none."""
    profile = PROFILES.get(name.lower())
    if profile is None:
        near = difflib.get_close_matches(name.lower(), PROFILES)
        advice = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(PROFILES)}"
        raise MisuseError(f"there is no link profile '{name}': {advice}")
    return profile
