"""netem.virtual.laptop: drafters on weights that are loaded once."""

import pytest

from common.protocol.errors import MisuseError
from netem.virtual.laptop import Draft, Laptops


def test_every_client_has_a_drafter_of_its_own(laptops: Laptops) -> None:
    one, other = (laptops.drafter(Draft("twin")) for _ in range(2))
    assert one is not other
    assert one.kind == other.kind == "independent"


def test_a_draft_that_is_not_offered_is_misuse(laptops: Laptops) -> None:
    with pytest.raises(MisuseError, match="no draft 'absent'"):
        laptops.drafter(Draft("absent"))
