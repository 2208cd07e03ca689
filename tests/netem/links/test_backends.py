"""netem.links.backends: the choice among backends, and what each refuses."""

import os
import sys

import pytest

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links.backends import BACKENDS, PROXY, LinkRequest, choose_backend, find_backend, why_not, working_backends
from netem.links.errors import LinkFailureError
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import find_profile

FOUR_G = find_profile("4g")
SERVER = Address("127.0.0.1", 1)


def test_an_unknown_backend_is_answered_with_all() -> None:
    with pytest.raises(MisuseError, match="choose one of proxy, tun, tc"):
        find_backend("netns")


async def test_the_proxy_works_everywhere_and_automatic_choice_is_one_that_works() -> None:
    working = await working_backends()
    assert PROXY in working
    assert await choose_backend("auto") in working


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != PROXY])
async def test_a_backend_works_or_the_answer_says_which_do(name: str) -> None:
    if await why_not(name) is None:
        assert await choose_backend(name) == name
    else:
        with pytest.raises(LinkFailureError, match="what works here: --backend proxy"):
            await choose_backend(name)


@pytest.mark.skipif(sys.platform != "linux", reason="counts what /proc shows")
@pytest.mark.parametrize("name", BACKENDS)
async def test_trying_a_backend_leaves_nothing_open(name: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    await why_not(name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("backend", "wanted", "reason"),
    [
        ("proxy", LinkRequest(FOUR_G, None), "give --to"),
        ("proxy", LinkRequest(FOUR_G, SERVER, congestion="cubic"), "--backend tun"),
        ("tc", LinkRequest(FOUR_G, SERVER, record=True), "records nothing"),
        (
            "tc",
            LinkRequest(LinkProfile("gone", "for a test", Direction(), Direction(), Outages(((1.0, 2.0),))), SERVER),
            "neither outages nor traces",
        ),
    ],
)
def test_what_a_backend_cannot_do_is_misuse(backend: str, wanted: LinkRequest, reason: str) -> None:
    with pytest.raises(MisuseError, match=reason):
        find_backend(backend)(wanted)
