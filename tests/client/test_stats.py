"""What answers cost, alone and together."""

from dataclasses import fields, replace

from client.stats import Meter, Stats, combined
from common.rpc.traffic import Traffic

ONE = Stats(
    tokens=10,
    seconds=2.0,
    tokens_per_second=5.0,
    ttft_seconds=0.1,
    accept_length=2.0,
    passes=5,
    bytes_up=100,
    bytes_down=1000,
    rtt_ms=40.0,
    provisional_tokens=8,
    retracted_tokens=3,
    reconnects=0,
    draft="small",
    rule="greedy",
)


def test_rates_of_several_answers_are_sums_over_sums_and_delays_medians():
    one = replace(ONE, state_bytes={"lsa": 5, "kv": 7})
    other = replace(
        ONE,
        tokens=50,
        seconds=4.0,
        passes=10,
        ttft_seconds=0.9,
        rtt_ms=60.0,
        bytes_up=1,
        reconnects=2,
        state_bytes={"lsa": 1},
    )
    third = replace(ONE, tokens=0, seconds=0.0, passes=0, ttft_seconds=0.2, rtt_ms=41.0)
    unmeasured = replace(ONE, rtt_ms=0.0)
    assert [combined([unmeasured, each]).rtt_ms for each in (third, unmeasured)] == [41.0, 0.0]
    assert combined([one, other, third]) == replace(
        ONE,
        tokens=60,
        seconds=6.0,
        tokens_per_second=10.0,
        ttft_seconds=0.2,
        accept_length=4.0,
        passes=15,
        bytes_up=201,
        bytes_down=3000,
        rtt_ms=41.0,
        provisional_tokens=24,
        retracted_tokens=9,
        reconnects=2,
        state_bytes={"lsa": 6, "kv": 7},
    )


def test_the_accept_length_leaves_out_what_no_pass_has_verified():
    partly = replace(ONE, tokens=96, passes=3, unverified_tokens=83)
    together = combined([partly, ONE])
    assert (together.tokens, together.unverified_tokens, together.accept_length) == (106, 83, 23 / 8)


def test_an_answer_without_a_commit_has_rates_of_nothing():
    nothing = replace(ONE, tokens=0, seconds=0.0, passes=0)
    assert (combined([nothing]).tokens_per_second, combined([nothing]).accept_length) == (0.0, 0.0)


def test_a_meter_keeps_the_first_commit_and_the_end():
    times = iter([10.0, 10.5, 11.0, 13.0])
    meter = Meter(lambda: next(times))
    assert meter.ttft == 0.5
    for _ in range(2):
        meter.committed()
    meter.finished()
    assert (meter.ttft, meter.elapsed()) == (1.0, 3.0)


def test_traffic_of_an_answer_is_what_came_since():
    later = Traffic(7, 900, {"lsa": 30, "kv": 8})
    assert later.since(Traffic(5, 100, {"lsa": 20})) == Traffic(2, 800, {"lsa": 10, "kv": 8})


def test_scripts_read_the_bytes_of_draft_state_by_kind():
    assert ONE.as_dict()["state_bytes"] == {}
    assert replace(ONE, state_bytes={"lsa": 5}).as_dict()["state_bytes"] == {"lsa": 5}


def test_scripts_read_no_digits_that_say_nothing():
    measured = replace(ONE, seconds=0.4442050770003334, tokens_per_second=22.51212, ttft_seconds=1 / 3, rtt_ms=200 / 3)
    told = replace(measured, accept_length=2 / 3).as_dict()
    rounded = replace(ONE, seconds=0.444205, tokens_per_second=22.512, ttft_seconds=0.333333, rtt_ms=66.667)
    assert told == replace(rounded, accept_length=0.667).as_dict()
    assert list(told) == [field.name for field in fields(Stats)]
    assert (told["seconds"], told["accept_length"]) == (0.444205, 0.667)
