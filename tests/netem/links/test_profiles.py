"""netem.links.profiles: the published values, and finding them."""

import pytest

from common.protocol.errors import MisuseError
from netem.links.profile import Direction
from netem.links.profiles import PROFILES, find_profile


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("4g", Direction(20e6, 21, 19)),
        ("5g", Direction(100e6, 10, 10)),
        ("satellite", Direction(10e6, 300, 0)),
        ("lan", Direction(100e6, 0, 0)),
        ("none", Direction(None, 0, 0)),
    ],
)
def test_the_table_holds_the_published_values(name: str, way: Direction) -> None:
    profile = find_profile(name)
    assert (profile.up, profile.down) == (way, way)


def test_case_does_not_matter() -> None:
    assert find_profile("4G") is PROFILES["4g"]


def test_a_misspelt_name_is_answered_with_near_matches() -> None:
    with pytest.raises(MisuseError, match="did you mean satellite"):
        find_profile("sattelite")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(MisuseError, match="choose one of 4g, 5g, satellite, lan, none"):
        find_profile("zzz")
