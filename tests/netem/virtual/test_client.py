"""netem.virtual.client: drafters on weights that are loaded once."""

import pytest

from common.protocol.errors import MisuseError
from netem.virtual.client import DraftSetup, LoadedDrafts


def test_every_client_has_a_drafter_of_its_own(loaded_drafts: LoadedDrafts) -> None:
    one, other = (loaded_drafts.drafter(DraftSetup("twin")) for _ in range(2))
    assert one is not other
    assert one.kind == other.kind == "independent"


def test_a_draft_that_is_not_offered_is_misuse(loaded_drafts: LoadedDrafts) -> None:
    with pytest.raises(MisuseError, match="no draft 'absent'"):
        loaded_drafts.drafter(DraftSetup("absent"))
