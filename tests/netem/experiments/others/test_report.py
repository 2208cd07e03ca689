"""What the table says follows from what was heard."""

import json
import math
from dataclasses import replace

import pytest

from common.stated_costs import STATED
from netem.experiments.others.heard import Heard
from netem.experiments.others.outages import FOR_GOOD, BrokenAnswer
from netem.experiments.others.report import Measured, computed_seconds, make_report
from netem.experiments.others.systems import LLAMA, LLAMA_DRAFTED
from netem.experiments.references import Reference
from netem.experiments.speed.systems import CLOUD_DECODING

END = 0
REFERENCES = [Reference((1,), (2, 3, 4, END), (1.0,) * 4), Reference((1,), (5, 6), (1e-9,) * 2)]
CLOUD = CLOUD_DECODING.name


def heard(*tokens: int, seconds: float = 1.0, **more) -> Heard:
    return Heard(lambda: 0.0, [(0.1, (token,)) for token in tokens], seconds=seconds, **more)


FAST = [heard(2, 3, 4, seconds=0.3, passes=2, drafted=4), heard(5, 6, seconds=0.2, passes=1, drafted=2)]
SLOW = [heard(2, 3, 4, END, passes=4), heard(5, 6, passes=2)]
SIMULATED = [heard(2, 3, 4, END, seconds=0.5), heard(5, 6, seconds=0.25)]
BROKEN = BrokenAnswer(REFERENCES[0], FOR_GOOD, heard(2, seconds=11.0, error="APITimeoutError: no"), 1.0, 1)
WHOLE = BrokenAnswer(REFERENCES[0], 3.0, Heard(lambda: 0.0, [(0.1, (2,)), (4.5, (3, 4))], seconds=4.5), 0.2, 1)

MEASURED = Measured(
    own={"4g": {LLAMA: SLOW, LLAMA_DRAFTED: FAST, CLOUD: SLOW}},
    stated={"4g": {CLOUD: SIMULATED}},
    broken={LLAMA_DRAFTED: [WHOLE, BROKEN]},
    sweep={3: 10.0},
    references=REFERENCES,
    end_tokens=frozenset([END]),
)


def report(measured: Measured = MEASURED):
    return make_report(measured, 8, 10, 10.0, "version: 1")


def test_end_tokens_count_for_no_system():
    of = report().results["links"]["4g"]["systems"]
    assert of[CLOUD]["tokens_per_second"] == pytest.approx((3 + 2) / 2)
    assert of[LLAMA_DRAFTED]["tokens_per_second"] == pytest.approx(10)
    assert of[CLOUD]["against_llama_draft"] == pytest.approx((3 / 10 + 2 / 10) / 2)
    assert of[LLAMA_DRAFTED]["passes_per_token"] == pytest.approx(3 / 5)
    assert of[LLAMA_DRAFTED]["drafted_levels_per_token"] == pytest.approx(6 / 5), "a chain has a token on each level"
    assert "drafted levels/token" in report().headings, "Outrider's trees have several"
    assert all(each["verdicts"] == {"identical": 2} for each in of.values())


def test_a_system_at_the_server_is_charged_for_its_passes_levels_and_one_round_trip():
    free = computed_seconds(heard(), "4g")
    assert free == pytest.approx(0.042)
    one = computed_seconds(heard(passes=1, drafted=3), "4g") - free
    assert 1000 * one == pytest.approx(STATED.pass_ms + 3 * STATED.server_level_ms)
    wide = computed_seconds(heard(passes=1, drafted=399), "4g") - free
    assert 1000 * wide == pytest.approx(400 * STATED.token_ms + 399 * STATED.server_level_ms)
    of = report().results["links"]["4g"]["systems"]
    seconds = computed_seconds(FAST[0], "4g") + computed_seconds(FAST[1], "4g")
    assert of[LLAMA_DRAFTED]["stated_tokens_per_second"] == pytest.approx((3 + 2) / seconds)
    assert of[CLOUD]["stated_tokens_per_second"] == pytest.approx((3 + 2) / (0.5 + 0.25)), "as simulated"
    rows = {row[1]: row[-1] for row in report().rows}
    assert "computed" in rows[LLAMA_DRAFTED]
    assert "computed" not in rows[CLOUD]


def test_broken_answers_are_told_with_the_clients_own_words():
    said = report().remarks[-2:]
    assert said[0] == f"{LLAMA_DRAFTED}, 3 s: 1 of 1 answers went on and are the target's own; silent for 4.3 s."
    assert "gone for good: 0 of 1" in said[1]
    assert "one ended after 10.0 s with 1 of 3 tokens ('APITimeoutError: no')" in said[1]


def test_an_answer_that_had_left_the_server_did_not_go_on():
    early = replace(WHOLE, lasted_s=FOR_GOOD, heard=heard(2, 3, 4, seconds=0.3))
    said = report(replace(MEASURED, broken={CLOUD: [early, BROKEN]})).remarks[-1]
    assert (
        "0 of 2 answers went on and are the target's own; 1 had left the server whole before the cut; one ended" in said
    )


@pytest.mark.parametrize("lasted_s", [3.0, FOR_GOOD])
def test_an_answer_that_ended_before_its_link_could_be_cut_did_not_go_on_either(lasted_s):
    uncut = replace(WHOLE, lasted_s=lasted_s, heard=heard(2, 3, 4, seconds=0.3), cut_s=math.nan)
    failed = replace(uncut, heard=heard(2, error="refused"))
    made = report(replace(MEASURED, broken={LLAMA_DRAFTED: [uncut, failed]}))
    assert made.remarks[-1].endswith(
        "0 of 2 answers went on and are the target's own; 1 had left the server whole before the cut; "
        "one ended before the cut with 1 of 3 tokens ('refused')."
    )
    json.dumps(made.results, allow_nan=False)


def test_only_our_own_answers_must_be_the_targets():
    assert not report().faults
    wrong = [heard(2, 9, 4), SLOW[1]]
    others = replace(MEASURED, own={"4g": MEASURED.own["4g"] | {LLAMA: wrong}})
    assert not report(others).faults
    ours = replace(MEASURED, own={"4g": MEASURED.own["4g"] | {CLOUD: wrong}})
    assert report(ours).faults == [f"{CLOUD} on 4g gave other answers than the target's"]
    stated = replace(MEASURED, stated={"4g": {CLOUD: wrong}})
    assert report(stated).faults == [f"{CLOUD} on 4g at stated costs gave other answers than the target's"]
    near = replace(MEASURED, own={"4g": MEASURED.own["4g"] | {CLOUD: [SLOW[0], heard(7, 6)]}})
    assert not report(near).faults, "a near-tie may fall either way"
    failed = replace(MEASURED, own={"4g": MEASURED.own["4g"] | {LLAMA: [heard(error="refused"), SLOW[1]]}})
    assert report(failed).faults == [f"{LLAMA} on 4g: refused"]
    broken_off = replace(MEASURED, stated={"4g": {CLOUD: [heard(2, error="refused"), SLOW[1]]}})
    assert report(broken_off).faults == ["at stated costs: refused"], "what came of it is the target's"


@pytest.mark.parametrize(
    ("came", "is_wrong"),
    [((), False), ((2, 3), False), ((2, 3, 4, END), False), ((2, 9), True), ((2, 3, 4, 5), True)],
)
def test_what_came_of_a_broken_answer_of_ours_is_the_beginning_of_the_targets(came, is_wrong):
    broken = replace(BROKEN, heard=heard(*came, seconds=11.0, error="the server was lost"))
    wrong = f"{CLOUD}, cut for good, gave other tokens than the target's"
    assert report(replace(MEASURED, broken={CLOUD: [broken]})).faults == [wrong] * is_wrong
    assert not report(replace(MEASURED, broken={LLAMA_DRAFTED: [broken]})).faults


@pytest.mark.parametrize(("end", "is_wrong"), [("stop", True), ("length", True), ("offline", False)])
def test_an_answer_of_ours_that_says_it_is_whole_is_all_of_the_targets(end, is_wrong):
    short = replace(WHOLE, heard=heard(2, 3, seconds=4.5, end=end))
    wrong = f"{CLOUD}, cut for 3 s, gave other tokens than the target's"
    assert report(replace(MEASURED, broken={CLOUD: [short]})).faults == [wrong] * is_wrong


def test_an_answer_that_ended_without_its_server_over_a_whole_link_is_a_fault():
    alone = [heard(2, end="offline"), SLOW[1]]
    own = replace(MEASURED, own={"4g": MEASURED.own["4g"] | {CLOUD: alone}})
    assert report(own).faults == [f"{CLOUD} on 4g: offline"]
    assert report(replace(MEASURED, stated={"4g": {CLOUD: alone}})).faults == ["at stated costs: offline"]
