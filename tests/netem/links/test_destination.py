"""The server behind a link: that it is not there is said once, and again only after it was."""

import logging
import socket

import pytest

from common.address import Address
from netem.links import sockets
from netem.links.destination import Destination


async def test_a_server_that_is_away_is_missed_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    where = Address("127.0.0.1", sockets.free_port())
    destination = Destination(where)
    for times in (1, 2):
        for _ in range(3):
            assert await destination.connect() is None
        assert [record.getMessage() for record in caplog.records] == [
            f"cannot reach {where} (Connection refused): start the server there"
        ] * times
        with socket.create_server((where.host, where.port)):
            server = await destination.connect()
            assert server is not None
            server.close()


async def test_a_name_that_is_unknown_is_told_in_the_systems_words(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(_: Address) -> socket.socket:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(sockets, "connect", unknown)
    assert await Destination(Address("nowhere.invalid", 1)).connect() is None
    assert "(Name or service not known)" in caplog.text
