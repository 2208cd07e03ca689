"""A fleet whose replicas a file lists."""

import asyncio
from pathlib import Path

import pytest

from common.address import Address
from common.protocol.errors import MisuseError
from common.rpc.description_checks import MOST_REPLICAS
from server.fleet import listed as listed_module
from server.fleet.listed import ListedFleet


async def test_the_list_is_read_again_and_a_broken_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listed_module, "INTERVAL_S", 0.001)
    file = tmp_path / "replicas"
    file.write_text("")
    fleet = ListedFleet(file)
    await fleet.join()
    assert fleet.addresses == ()
    running = asyncio.create_task(fleet.run())

    async def until_listed(*addresses: Address) -> None:
        async with asyncio.timeout(20):
            while fleet.addresses != addresses:
                await asyncio.sleep(0.001)

    file.write_text("gpu:7070\n[::1]:7071\ngpu:7070\n")
    await until_listed(Address("gpu", 7070), Address("::1", 7071))
    file.write_text("not an address")
    async with asyncio.timeout(20):
        while not caplog.messages:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert len(caplog.messages) == 1
    assert len(fleet.addresses) == 2
    file.write_text("gpu:7072\n")
    await until_listed(Address("gpu", 7072))
    file.unlink()
    async with asyncio.timeout(20):
        while len(caplog.messages) < 2:
            await asyncio.sleep(0.001)
    assert "cannot be read (No such file or directory); clients" in caplog.messages[1]
    running.cancel()
    await fleet.leave()


async def test_of_more_replicas_than_clients_take_each_lists_others_and_keeps_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_module, "INTERVAL_S", 0.001)
    file, replicas = tmp_path / "replicas", [f"gpu:{port}" for port in range(1, 301)]
    file.write_text("\n".join(replicas))
    fleets = [ListedFleet(file) for _ in range(20)]
    lists = [[str(address) for address in fleet.addresses] for fleet in fleets]
    assert {len(listed) for listed in lists} == {MOST_REPLICAS}
    assert all(listed == sorted(listed, key=replicas.index) for listed in lists)
    assert {address for listed in lists for address in listed} == set(replicas)
    fleet, before = fleets[0], fleets[0].addresses
    running = asyncio.create_task(fleet.run())
    file.write_text("\n".join(each for each in replicas if each != str(before[0])))
    async with asyncio.timeout(20):
        while fleet.addresses == before:
            await asyncio.sleep(0.001)
    assert len(fleet.addresses) == MOST_REPLICAS
    assert set(before) - set(fleet.addresses) == {before[0]}
    running.cancel()


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file or directory"), ("gpu", "'gpu' is not an address"), ("gpu:0", "'gpu:0' names no port")],
)
def test_what_is_no_list_is_refused(content: str | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "replicas"
    if content is not None:
        file.write_text(content)
    with pytest.raises(MisuseError, match=rf"--fleet-list names .*replicas, which cannot be read as a list \({why}"):
        ListedFleet(file)
