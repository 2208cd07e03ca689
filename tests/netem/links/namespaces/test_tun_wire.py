"""netem.links.namespaces.tun_wire: an emulator that starts late, badly or not at all is a failure of the link."""

import socket
import sys
from types import SimpleNamespace

import pytest

from netem.links.backends import PROXY, choose_backend
from netem.links.errors import LinkFailureError
from netem.links.namespaces import tun_wire
from netem.links.namespaces.tun_wire import TunWire
from netem.links.profiles import find_profile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the backend is for Linux")


def emulator(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Runs this module of the standard library in its place."""
    monkeypatch.setattr(tun_wire, "emulator", SimpleNamespace(__name__=module))


async def test_an_emulator_that_starts_late_is_a_failure_and_auto_takes_the_proxy(monkeypatch):
    monkeypatch.setattr(tun_wire, "_PATIENCE_S", 0.001)
    with pytest.raises(LinkFailureError, match="did not start within"):
        await TunWire(find_profile("none"), None, record=False).open()
    assert await choose_backend("auto") == PROXY


async def test_an_emulator_that_ends_at_once_is_a_failure(monkeypatch):
    emulator(monkeypatch, "this")  # which prints and ends
    with pytest.raises(LinkFailureError, match="failed here"):
        await TunWire(find_profile("none"), None, record=False).open()


async def test_an_emulator_that_no_longer_answers_is_a_failure():
    wire = TunWire(find_profile("none"), None, record=False)
    wire._connection, theirs = socket.socketpair()
    theirs.close()
    with wire._connection, pytest.raises(LinkFailureError, match="does not answer"):
        await wire.report()
