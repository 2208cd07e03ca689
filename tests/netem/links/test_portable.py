"""netem.links.portable: every field of every profile survives the journey to another process."""

from dataclasses import replace

import pytest

from netem.links.portable import from_json, to_json
from netem.links.profiles import PROFILES, find_profile
from netem.links.trace import Trace


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_survives(name: str) -> None:
    assert from_json(to_json(PROFILES[name])) == PROFILES[name]


def test_a_trace_survives() -> None:
    four_g = find_profile("4g")
    traced = replace(four_g, down=replace(four_g.down, rate_bits_per_s=None, trace=Trace((1, 2, 2))))
    assert from_json(to_json(traced)) == traced
