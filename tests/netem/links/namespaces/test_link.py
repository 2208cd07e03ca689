"""netem.links.namespaces.link: a link that cannot be made leaves nothing behind."""

import errno

import pytest

from common.address import Address
from netem.links.errors import LinkFailureError
from netem.links.namespaces import link
from netem.links.profiles import find_profile
from netem.links.tun import TunLink
from tests.netem.links.here import needs_tun


@needs_tun
async def test_a_link_in_which_nothing_can_listen_leaves_no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(link, "_listening", refused)
    refusing = TunLink(find_profile("none"), Address("127.0.0.1", 1))
    with pytest.raises(LinkFailureError, match="Too many open files"):
        await refusing.__aenter__()
    assert refusing._tun_wire._process.returncode is not None
