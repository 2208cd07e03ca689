from dataclasses import replace

import pytest

from netem.experiments.experiment import Request
from netem.experiments.speed import load
from netem.experiments.speed.load import COMPARED, QUICK, make_loads
from netem.experiments.speed.load_report import ARRIVING, TOGETHER, Load, gains_with, make_report
from tests.netem.experiments.one_device.running import check, run_quick
from tests.netem.experiments.speed.fake_load_runs import run, timed

MAX_NEW_TOKENS = {ARRIVING: 96, TOGETHER: 64}
EIGHT = Load(TOGETHER, 8)


def systems(**changed):
    """All systems alike, but for those of `changed`, whose names are written with '_'."""
    same = {system.name: run(timed(0.0, 2.0), timed(0.0, 4.0)) for system in COMPARED}
    return same | {name.replace("_", " "): each for name, each in changed.items()}


def report(**changed):
    quick = run(timed(0.0, 1.0), timed(0.0, 2.0), busy=0.5, levels=30)
    loads = {Load(ARRIVING, 2): systems(), EIGHT: systems(**({"auto": quick} | changed))}
    return make_report(loads, MAX_NEW_TOKENS, "4g")


def row_of(made, load, name):
    return next(row for row in made.rows if (row[0], row[2]) == (str(load), name))


def test_rows_are_held_against_cloud_decoding_at_the_same_load():
    made = report()
    check("load", made)
    assert made.faults == []
    auto = ["1.50 s", "2.00", "2.7", "2.00", "4", "2.00", "16", "2.00", "15", "2.50", "25%", "15"]
    assert row_of(made, EIGHT, "auto") == ["8 clients", "2", "auto", *auto]
    cloud = ["3.00 s", "1.00", "1.3", "1.00", "2", "1.00", "8", "1.00", "8", "2.50", "25%", "0"]
    assert row_of(made, EIGHT, "cloud decoding") == ["8 clients", "2", "cloud decoding", *cloud]
    assert row_of(made, Load(ARRIVING, 2), "auto")[4] == "1.00 (1.00-1.00)"


@pytest.mark.parametrize(("count", "told"), [(19, "2.00 s"), (20, "2.00 / 2.00 s")])
def test_a_p95_is_told_of_twenty_answers_and_more(count, told):
    many = run(*(timed(0.0, 2.0) for _ in range(count)))
    made = make_report({EIGHT: {system.name: many for system in COMPARED}}, MAX_NEW_TOKENS, "4g")
    assert row_of(made, EIGHT, "auto")[3] == told


def test_the_promise_is_measured_and_not_asserted():
    kept = report()
    assert kept.results["promised"]["measured"] == {"patient": 1.0, "auto": 2.0}
    assert kept.results["promised"]["kept"]
    assert "1.00 for patient and 2.00 for auto; kept" in kept.remarks[0]
    broken = report(auto=run(timed(0.0, 1.0), timed(0.0, 1.0), busy=0.7))
    assert not broken.results["promised"]["kept"]
    assert "NOT kept" in broken.remarks[0]
    assert broken.faults == ["fewer tokens per pass-second than promised"]


def test_without_eight_clients_nothing_is_promised():
    made = make_report({Load(ARRIVING, 2): systems(), Load(TOGETHER, 1): systems()}, MAX_NEW_TOKENS, "4g")
    check("load", made)
    assert gains_with({}, EIGHT) == {}
    assert not any("Promised" in remark for remark in made.remarks)
    assert made.faults == []
    assert {row[0] for row in made.rows} == {"2 requests/s", "1 client"}


def test_other_texts_and_broken_answers_are_faults():
    made = report(eager=run(timed(0.0, 1.0, (1, 2, 3, 5)), timed(0.0, 1.0, failure="gone")))
    assert made.faults == [
        "the answers differ between systems at 8 clients, which must never happen",
        "at 8 clients, with eager: an answer broke off: gone",
    ]
    assert any("NO" in remark for remark in made.remarks)


def test_loads_are_the_same_for_a_seed():
    prompts = [[1], [2], [3]]
    loads = make_loads(QUICK, 0, prompts)
    assert loads == make_loads(QUICK, 0, prompts)
    assert loads != make_loads(QUICK, 1, prompts)
    assert [str(each) for each in loads] == ["1 requests/s", "4 requests/s", "1 client", "8 clients"]
    assert len(loads[EIGHT]) == 8


async def test_a_small_load_on_the_demo_family(monkeypatch):
    few = replace(QUICK, rates=(8,), seconds=0.1, least_arrivals=2, clients=(2,), each=1, stagger_s=0.0, prompts=2)
    monkeypatch.setattr(load, "QUICK", replace(few, tokens={ARRIVING: 8, TOGETHER: 8}))
    made = await run_quick(load, Request(seed=0, quick=True))
    assert made.faults == []
    assert len(made.rows) == 2 * len(COMPARED)
    of_load = {entry["of"]: entry["systems"] for entry in made.results["loads"]}
    together = of_load[TOGETHER]
    assert {system["tokens"] for system in together.values()} == {16}
    # Two clients share their passes, and a draft saves passes.
    assert together["cloud decoding"]["server"]["sessions_per_pass"] > 1.5
    assert together["auto"]["server"]["passes"] < together["cloud decoding"]["server"]["passes"]
    assert together["auto"]["server_levels_per_second"] > 0 == together["patient"]["server_levels_per_second"]
