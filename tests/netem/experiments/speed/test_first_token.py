from dataclasses import replace

import pytest

from client.errors import BrokenOffError
from netem.experiments.experiment import Request
from netem.experiments.speed import first_token
from netem.experiments.speed.first_token import COMPARED, QUICK
from netem.experiments.speed.first_token_report import JUDGED, LinkAndLength, make_report, ratios
from netem.experiments.speed.runs import Asker
from netem.experiments.speed.systems import EAGER
from netem.links.profiles import find_profile
from netem.virtual.server import PACE
from tests.client.demo.answers import answer
from tests.netem.experiments.one_device.running import check, run_quick

CLOUD = [0.1, 0.2, 0.3]
SHORT = LinkAndLength("4g", 60)


def waits(**changed):
    same = {system.name: CLOUD for system in COMPARED}
    return {SHORT: same, JUDGED: same | changed}


def test_medians_and_p95_are_held_against_cloud_decoding():
    made = make_report(waits(auto=[0.1, 0.21, 0.6]), prompts=3)
    check("first-token", made)
    row = next(row for row in made.rows if row[1:3] == ["1000", "auto"])
    assert row == ["4g", "1000", "auto", "3", "210 ms", "1.050", "600 ms", "2.000"]
    assert ratios(waits()[SHORT]) == {"lock-step moa": 1.0, "eager": 1.0, "auto": 1.0}


@pytest.mark.parametrize(("middle", "kept"), [(0.21, True), (0.23, False)])
def test_the_promise_is_measured_and_not_asserted(middle, kept):
    made = make_report(waits(eager=[0.1, middle, 0.3]), prompts=3)
    assert made.results["promised"]["kept"] == kept
    assert made.results["promised"]["measured"]["eager"] == pytest.approx(middle / 0.2)
    assert ("NOT kept" in made.remarks[0]) == (not kept)
    assert list(made.faults) == ([] if kept else ["the first token comes later than promised"])


def test_where_it_was_not_measured_nothing_is_promised():
    made = make_report({SHORT: waits()[SHORT]}, prompts=3)
    check("first-token", made)
    assert not made.results["promised"]["kept"]
    assert not any("Promised" in remark for remark in made.remarks)
    assert not made.faults


async def test_an_answer_without_a_token_has_no_first(monkeypatch):
    async def broken_off(*_):
        return replace(answer(()), failure="gone")

    monkeypatch.setattr(Asker, "ask", broken_off)
    asker = Asker(None, None, EAGER, EAGER.options(8))
    with pytest.raises(BrokenOffError, match="gone"):
        await first_token.first_token(asker, find_profile("4g"), [1, 2])


async def test_a_few_questions_to_the_demo_family(monkeypatch):
    few = replace(QUICK, links=("satellite",), lengths=(60, 600), prompts=1, draws=1)
    monkeypatch.setattr(first_token, "QUICK", few)
    made = await run_quick(first_token, Request(seed=0, quick=True))
    assert [row[:3] for row in made.rows] == [
        ["satellite", str(length), system.name] for length in (60, 600) for system in COMPARED
    ]
    way = find_profile("satellite").up.delay_ms / 1000
    for place in made.results["places"]:
        # A prompt of 600 tokens takes two passes, and nobody hears before a round trip and the passes are over.
        passes = PACE.cost(60) if place["length"] == 60 else PACE.cost(512) + PACE.cost(88)
        for system in place["systems"].values():
            least = 2 * way + passes
            assert least < system["median_seconds"] < least + 0.02
