"""The life cycle of a server whose parts take their time."""

import asyncio
import gc
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from server import daemon
from server.assembly import assemble
from server.fleet.listed import ListedFleet
from tests.server.harness import options_for


class SlowFleet(ListedFleet):
    """Its store does not answer until the test says so."""

    def __init__(self, file: Path):
        super().__init__(file)
        self.is_told, self.answers = asyncio.Event(), asyncio.Event()

    async def drain(self) -> None:
        self.is_told.set()
        await self.answers.wait()


async def test_it_drains_at_once_whatever_the_store_of_its_fleet_does(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet").write_text("")
    fleet, stop = SlowFleet(tmp_path / "fleet"), asyncio.Event()
    parts = replace(assemble(options_for(target)), fleet=fleet)
    monkeypatch.setattr(daemon, "assemble", lambda options: parts)
    monkeypatch.setattr(daemon, "_on_signals", lambda: stop)
    monkeypatch.setattr(gc, "freeze", lambda: None)  # what other tests left is to be collected
    monkeypatch.setattr(daemon, "_LAST_WORDS_SECONDS", 0.01)
    stop.set()
    living = asyncio.create_task(daemon._live(options_for(target)))
    await fleet.is_told.wait()
    async with asyncio.timeout(5):
        with suppress(ConnectionRefusedError):
            while True:
                with suppress(ConnectionResetError):  # the port closed while this waited to be accepted
                    _, connected = await asyncio.open_connection(parts.address.host, parts.address.port)
                    connected.close()
    fleet.answers.set()
    await living


async def test_what_failed_is_told_though_others_are_busy() -> None:
    async def fail() -> None:
        raise ArithmeticError("the device fell off the bus")

    async def work() -> None:
        await asyncio.sleep(60)

    busy, cancelled, failed = (asyncio.create_task(each) for each in (work(), work(), fail()))
    cancelled.cancel()
    await asyncio.wait((cancelled, failed))
    assert [str(each) for each in daemon._faults_of((busy, cancelled, failed))] == ["the device fell off the bus"]
    busy.cancel()
