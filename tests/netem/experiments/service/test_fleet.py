"""What the report of a fleet's run says was done, and how its absences are counted."""

import asyncio
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from common.address import Address
from netem.experiments.service import fleet
from netem.experiments.service.fleet import UPDATE, Absences, Health, look, make_report
from netem.experiments.service.replica_clients import Clients, Phase
from netem.experiments.service.replica_report import CALM, KILLING
from tests.netem.experiments.others.serving import served


def test_each_phase_is_a_row_and_the_kills_are_told_with_how_long_a_restart_takes() -> None:
    phases = {CALM: Phase(answers=40, held=[[8, 8, 8]]), KILLING: Phase(answers=90), UPDATE: Phase(answers=30)}
    report = make_report(phases, 5, 5, [4.0, 6.0, 9.0])
    assert not report.faults
    assert [row[0] for row in report.rows] == [CALM, KILLING, UPDATE]
    assert any("5 replicas were killed" in remark and "6.0 s in the median" in remark for remark in report.remarks)
    assert make_report(phases, 4, 5, []).faults


def test_a_replica_is_away_from_the_first_look_without_it_to_the_first_with_it() -> None:
    absences = Absences()
    for now, serving in enumerate(([0, 1, 2], [0, 2], [0], [0, 1], [0, 1, 2])):
        absences.note(serving, float(now))
    assert absences.seconds == [2.0, 2.0]
    assert absences.since == {}


def test_a_fleet_is_settled_once_all_serve_and_no_update_goes_on() -> None:
    assert Health(("serving",) * 3, is_updating=False).is_settled
    assert not Health(("serving",) * 3, is_updating=True).is_settled
    assert not Health(("serving", "starting", "serving"), is_updating=False).is_settled
    assert Health(("serving", "starting", "serving"), is_updating=False).serving == [0, 2]


async def test_absences_are_noted_after_a_look_in_vain(monkeypatch) -> None:
    looks = iter([OSError("timed out"), Health(("serving", "away", "serving"), False), Health(("serving",) * 3, False)])

    async def look_once(_: Address) -> Health:
        seen = next(looks, None)
        if seen is None:
            raise asyncio.CancelledError
        if isinstance(seen, OSError):
            raise seen
        return seen

    monkeypatch.setattr(fleet, "look", look_once)
    monkeypatch.setattr(fleet, "SAMPLE_S", 0.001)
    addresses, absences = [Address("127.0.0.1", port) for port in (1, 2, 3)], Absences()
    clients = Clients(addresses, {}, Path())
    with pytest.raises(asyncio.CancelledError):
        await fleet._note_absences(clients, addresses, Address("127.0.0.1", 4), absences)
    assert len(absences.seconds) == 1
    assert list(clients.away_at) == addresses[1:2]


async def test_a_fleet_is_looked_at_past_a_proxy_of_the_environment(unreachable_proxy: None) -> None:
    health = JSONResponse({"replicas": [{"state": "serving"}], "updating": False})
    async with served(Starlette(routes=[Route("/health", lambda _: health)])) as page:
        assert await look(page) == Health(("serving",), is_updating=False)
