"""netem.experiments.speed.clock: its runs on the virtual clock, and what is made of both sides."""

from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from common.protocol.errors import MisuseError, OutriderError
from common.stated_costs import STATED
from netem.experiments.experiment import Request
from netem.experiments.speed import clock
from netem.experiments.speed.clock import ClockSetting, ClockWorkload, play_virtually
from netem.experiments.speed.clock_table import ClockComparison
from netem.experiments.speed.runs import Asker, TimedAnswer
from netem.experiments.speed.systems import CLOUD_DECODING, EAGER
from netem.experiments.speed.testbed import open_testbed
from netem.virtual.server import PACE, pace_of
from tests.client.demo.answers import answer, counted

ONCE = ClockSetting("4g", clients=1, slower=1, systems=(CLOUD_DECODING,), repetitions=1)
TOKENS = 8


@pytest.fixture(scope="module")
def testbed():
    return open_testbed(Request(0, quick=True), 2)


def test_both_sides_costs_are_as_many_times_as_high():
    slower = replace(ONCE, slower=4)
    pace = pace_of(slower.costs)
    assert pace.cost(1) == pytest.approx(4 * PACE.cost(1))
    assert pace.cost(4000) == pytest.approx(4 * PACE.cost(4000))
    assert pace.per_level == pytest.approx(4 * PACE.per_level)
    assert slower.costs.draft_seconds == pytest.approx(4 * STATED.draft_seconds)


def test_costs_slow_a_run_down_and_links_stay_as_they_are(testbed):
    prompts = testbed.prompts["code"][:1]
    passes = TOKENS * PACE.per_pass
    once, slower = (
        TOKENS / play_virtually(testbed, replace(ONCE, slower=times), CLOUD_DECODING, prompts, TOKENS)
        for times in (1, 4)
    )
    assert once > passes
    assert slower - once == pytest.approx(3 * passes, rel=0.05)


def test_as_many_clients_ask_every_prompt_each_beginning_with_another(testbed, monkeypatch):
    asked = []

    async def noted(asker, profile, tokens):
        asked.append((profile.seed, tuple(tokens), asker.options))
        return TimedAnswer(answer((1, 2), seconds=0.5), 0.0, ())

    monkeypatch.setattr(Asker, "ask_timed", noted)
    two = ClockSetting("4g", clients=2, slower=4, systems=(EAGER,), repetitions=3)
    assert play_virtually(testbed, two, EAGER, [[1], [2]], TOKENS) == pytest.approx(4.0)
    assert {options for *_, options in asked} == {EAGER.options(TOKENS, 4 * STATED.draft_seconds)}
    by_seed = {seed: tokens for seed, tokens, _ in asked}
    assert len(by_seed) == len(asked) == 3 * 2 * 2, "draws, clients, prompts, each on a link of its own"
    assert [by_seed[index * 1000 + number * 1000_000] for index in (0, 1) for number in (0, 1)] == [
        (1,),
        (2,),
        (2,),
        (1,),
    ]


async def test_both_sides_are_asked_as_many_prompts_as_the_setting_says(testbed, monkeypatch):
    virtual, real = [], []

    async def warm_up(prompt):
        assert prompt == testbed.prompts["code"][0]

    async def play(prompts, tokens):
        real.append((prompts, tokens))
        return [answer((1, 2), seconds=0.5)]

    @asynccontextmanager
    async def started(*_):
        counters = {**counted(passes=1, overrun=0), "assisted_levels": 0, "overrun_levels": 0}
        yield SimpleNamespace(warm_up=warm_up, play=play, server=SimpleNamespace(summary=lambda: counters))

    monkeypatch.setattr(clock, "start_system", started)
    monkeypatch.setattr(clock, "play_virtually", lambda *asked: virtual.append(asked[3:]) or 4.0)
    one = replace(ONCE, prompts=1, repetitions=3)
    workload = ClockWorkload((one,), TOKENS)
    (compared,) = await clock._compare_setting(testbed, Request(0, quick=True), workload, one)
    assert virtual == [(testbed.prompts["code"][:1], TOKENS)]
    assert real == 3 * virtual
    assert len(testbed.prompts["code"]) == 2
    assert compared.ratio == pytest.approx(1.0)
    assert (compared.link, compared.clients, compared.costs) == ("4g", 1, 1)


@pytest.fixture
def measured(monkeypatch):
    """Makes a run of settings with so many prompts each, where so many are at hand; returns the prompts and the report.
    Nothing is loaded or measured."""

    async def measure(wanted, at_hand):
        asked = []

        async def calibrated(*_, **__):
            return SimpleNamespace(as_dict=lambda: {"faults": []})

        async def compare(testbed, request, workload, setting):
            asked.append(testbed.prompts["code"][: setting.prompts])
            return [ClockComparison(setting.link, 1, 1, "eager", 4.0, [4.0], late_passes=0.0, late_levels=0.0)]

        def open_few(request, count):
            return SimpleNamespace(prompts={"code": [[number] for number in range(min(count, at_hand))]})

        monkeypatch.setattr(clock, "QUICK", ClockWorkload([replace(ONCE, prompts=each) for each in wanted], TOKENS))
        monkeypatch.setattr(clock, "open_testbed", open_few)
        monkeypatch.setattr(clock, "calibrate", calibrated)
        monkeypatch.setattr(clock, "_compare_setting", compare)
        return asked, await clock.measure(Request(0, quick=True), lambda *_: None)

    return measure


async def test_as_many_prompts_are_read_as_any_setting_asks(measured):
    asked, report = await measured(wanted=(1, 3, 2), at_hand=9)
    assert [len(prompts) for prompts in asked] == [1, 3, 2]
    assert report.faults == []


async def test_fewer_prompts_than_a_setting_asks_are_no_run(measured):
    with pytest.raises(MisuseError, match=r"asks 3 held-out prompts for code, and .* has 2; add more"):
        await measured(wanted=(1, 3), at_hand=2)


def test_an_answer_that_is_not_sound_has_no_speed(testbed, monkeypatch):
    async def failing(*_):
        return TimedAnswer(replace(answer(), note="the drafter failed"), 0.0, ())

    monkeypatch.setattr(Asker, "ask_timed", failing)
    with pytest.raises(OutriderError, match="the drafter failed"):
        play_virtually(testbed, ONCE, EAGER, [[1]], TOKENS)
