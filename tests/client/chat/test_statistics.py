"""Figures of the last answer and of all."""

from dataclasses import replace

from client.chat.statistics import stats_table
from tests.client.test_stats import ONE


def test_nothing_answered_is_nothing_to_tell():
    assert stats_table([]) == []


def test_the_last_answer_stands_beside_all():
    first = replace(ONE, tokens=30, seconds=1.0, bytes_up=1000, reconnects=1, retracted_tokens=2)
    last = replace(ONE, tokens=10, seconds=1.0, tokens_per_second=10.0, bytes_up=500, reconnects=0, retracted_tokens=1)
    rows = {name: (of_last, of_all) for name, of_last, of_all in stats_table([first, last])}
    assert rows["answers"] == ("the last", "2")
    assert rows["tokens"] == ("10", "40")
    assert rows["tokens/s"] == ("10.0", "20.0")
    assert rows["up"] == ("0.5 kB", "1.5 kB")
    assert (rows["retracted"], rows["reconnects"]) == (("1", "3"), ("0", "1"))


def test_time_that_a_draft_wrote_alone_does_not_slow_the_target():
    alone = replace(ONE, tokens=0, seconds=9.0, tokens_per_second=0.0, passes=0)
    judged = replace(ONE, tokens=10, seconds=1.0)
    rows = {name: (of_last, of_all) for name, of_last, of_all in stats_table([judged, alone])}
    assert rows["tokens/s"] == ("0.0", "10.0")
    assert rows["first token"][0] == "none"
