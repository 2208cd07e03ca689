"""The order in which sessions that wait for K/V are served: by age."""

from itertools import groupby

from server.sessions.waiting_line import WaitingLine

ANSWER_S = 10.0
NOBODY = ""
"""The client without a token."""


def test_room_is_kept_for_the_oldest_that_came_back() -> None:
    line = WaitingLine()
    line.refused("long", 300, 1.0, 0.0)
    assert line.reserved("short", 0.5, ANSWER_S, NOBODY) == 0.0  # the oldest may never come back
    line.refused("long", 300, 1.0, 1.0)
    line.refused("longer", 900, 1.0, 1.0)
    line.refused("longer", 900, 1.0, 2.0)
    assert line.reserved("short", 2.0, ANSWER_S, NOBODY) == 300
    assert line.reserved("longer", 2.0, ANSWER_S, NOBODY) == 300
    assert line.reserved("long", 2.0, ANSWER_S, NOBODY) == 0.0
    line.served("long")
    assert line.reserved("short", 2.0, ANSWER_S, NOBODY) == 900


def test_who_stays_away_holds_up_nobody() -> None:
    line = WaitingLine()
    for now in (0.0, 1.0):
        line.refused("gone", 300, 1.0, now)
    assert line.reserved("short", 4.0, ANSWER_S, NOBODY) == 300
    assert line.reserved("short", 4.1, ANSWER_S, NOBODY) == 0.0
    assert len(line) == 0


def test_who_is_refused_for_another_reason_keeps_the_place_as_long_as_who_is_refused_for_room() -> None:
    refused, kept = WaitingLine(), WaitingLine()
    for line in (refused, kept):
        for now in (0.0, 1.0):
            line.refused("oldest", 300, 1.0, now)
    refused.refused("oldest", 300, 5.0, 2.0)
    kept.keep("oldest", 5.0, 2.0)
    waited = [
        [line.reserved("short", 2.0 + tenth / 10, ANSWER_S, NOBODY) for tenth in range(100)] for line in (refused, kept)
    ]
    assert waited[0] == waited[1]
    assert set(waited[0]) == {300.0, 0.0}, "and not for ever"
    assert waited[0][50] == 300.0, "it need not come sooner than it was told to"
    kept.keep("nobody", 5.0, 20.0)
    assert kept.reserved("short", 20.0, ANSWER_S, NOBODY) == 0.0


def test_unknown_sessions_fill_no_memory() -> None:
    line = WaitingLine()
    for number in range(10_000):
        line.refused(number, 1, 1.0, 0.0)
    assert len(line) == 256


def test_who_cannot_be_served_holds_up_others_half_of_the_time_at_most_under_whatever_name() -> None:
    line = WaitingLine()
    held = 0
    for second in range(200):
        for name in ("long", f"other{second // 7}"):
            line.refused(name, 300, 1.0, float(second))
        held += line.reserved("short", float(second), ANSWER_S, NOBODY) > 0
    assert 0 < held <= 100
    assert len(line) > 0


def test_who_holds_up_now_all_and_now_its_own_client_does_so_half_of_the_time_at_most() -> None:
    line, held = WaitingLine(), 0
    for second in range(2000):
        now = float(second)
        # For one second in twenty, the length of a first hold, its own client's answers keep it out.
        line.refused("long", 300, 1.0, now, holds_up="eve" if second % 20 == 0 else None)
        line.reserved("another", now, ANSWER_S, "eve")
        held += line.reserved("short", now, ANSWER_S, "alice") > 0
    assert 0 < held <= 1000


def test_those_who_give_up_one_after_another_hold_up_others_half_of_the_time_at_most() -> None:
    line, held = WaitingLine(), 0
    for second in range(300):
        now = float(second)
        for name in range(second // 10, second // 10 + 3):
            line.refused(name, 300, 1.0, now)
        held += line.reserved("short", now, ANSWER_S, "alice") > 0
    assert 0 < held <= 150


def test_a_rest_begins_where_its_hold_ended_and_not_where_that_is_noticed() -> None:
    line = WaitingLine()
    for now in (0.0, 1.0):
        line.refused("gives up", 300, 1.0, now)
    assert line.reserved("short", 1.0, 30.0, NOBODY) == 300  # and holds for 60 s
    for now in (5000.0, 5001.0):
        line.refused("long", 200, 1.0, now)
    assert line.reserved("short", 5001.0, 30.0, NOBODY) == 200
    line = WaitingLine()
    for now in (0.0, 1.0):
        line.refused("long", 300, 1000.0, now)
    held = [line.reserved("short", now, ANSWER_S, NOBODY) for now in (1.0, 59.0, 60.0, 61.0)]
    assert held == [300, 0.0, 0.0, 300], "from 1 s to 21 s, and again after 40 s"


def test_the_rest_is_twice_as_long_as_the_hold_was_where_that_was_given_up() -> None:
    line = WaitingLine()
    for now in (0.0, 1.0):
        line.refused("gives up", 300, 1.0, now)
    assert line.reserved("short", 2.0, ANSWER_S, NOBODY) == 300  # until 4 s
    for now in (5.0, 7.0):
        line.refused("long", 200, 1.0, now)
    assert [line.reserved("short", now, ANSWER_S, NOBODY) for now in (7.9, 8.0)] == [0.0, 200]


def test_a_hold_that_ended_before_another_one_shortens_no_rest() -> None:
    line = WaitingLine()
    line.refused("older", 300, 20.0, 0.0)
    for now in (0.0, 1.0):
        line.refused("younger", 200, 29.0, now)
    assert line.reserved("short", 1.0, ANSWER_S, NOBODY) == 200  # until 21 s
    for now in (10.0, 20.0, 30.0):
        line.refused("older", 300, 1000.0, now)
        assert (line.reserved("short", now, ANSWER_S, NOBODY) == 300) == (now < 30), "until 30 s"
    line.refused("older", 300, 1000.0, 40.0)  # by when the younger one has been given up
    assert len(line) == 1
    assert [line.reserved("short", now, ANSWER_S, NOBODY) for now in (69.9, 70.0)] == [0.0, 300]


def test_a_long_hold_of_its_own_client_makes_none_of_others_longer() -> None:
    line = WaitingLine()
    for second in range(1000):
        line.refused("long", 300, 1.0, float(second), holds_up="eve")
        line.reserved("short", float(second), ANSWER_S, "eve")
    held = 0
    for second in range(1000, 1100):
        line.refused("long", 300, 1.0, float(second))
        held += line.reserved("short", float(second), ANSWER_S, "alice") > 0
    assert held == 20 + 40, "with a rest of 40 s between both"


def test_a_first_hold_lasts_as_long_as_answers_do_and_never_beyond_a_minute() -> None:
    for answer_s, held_s in ((0.0, 5), (10.0, 20), (1000.0, 60)):
        line = WaitingLine()
        for second in range(held_s + 1):
            line.refused("long", 300, 1.0, float(second))
            is_held = line.reserved("short", float(second), answer_s, NOBODY) > 0
            assert is_held == (second >= 1), second
        line.refused("long", 300, 1.0, held_s + 1.0)
        assert line.reserved("short", held_s + 1.0, answer_s, NOBODY) == 0.0


def test_holds_in_vain_grow_until_one_outlasts_the_answers_that_run() -> None:
    """Answers of 500 s run and leave no room; shorter prompts that come while nothing is held begin another one."""
    line = WaitingLine()
    ends = 500.0
    for second in range(10_000):
        now = float(second)
        line.refused("long", 300, 1.0, now)
        if now >= ends:
            break
        if not line.reserved("short", now, ANSWER_S, NOBODY):
            ends = now + 500
    assert 500 < now < 7 * 500


def test_a_refusal_for_another_reason_keeps_an_age_and_gives_none() -> None:
    line = WaitingLine()
    line.keep("new", 1.0, 0.0)
    assert len(line) == 0
    line.refused("long", 300, 1.0, 0.0)
    line.refused("long", 300, 1.0, 1.0)
    line.keep("long", 20.0, 2.0)
    assert line.reserved("short", 20.0, ANSWER_S, NOBODY) == 300


def test_each_hold_in_vain_is_followed_by_a_rest_and_a_hold_of_twice_its_length() -> None:
    line, held = WaitingLine(), []
    for second in range(200):
        line.refused("oldest", 300, 1.0, float(second))
        held.append(line.reserved("short", float(second), ANSWER_S, NOBODY) > 0)
    first_s, *later = [len(list(run)) for _, run in groupby(held[1:])]
    assert first_s == 2 * ANSWER_S
    assert later[:3] == [2 * first_s, 2 * first_s, 4 * first_s]


def test_who_is_never_served_holds_up_others_for_a_bounded_time() -> None:
    line, held = WaitingLine(), []
    for second in range(30_000):
        line.refused("too long", 300, 1.0, float(second))
        held.append(line.reserved("short", float(second), ANSWER_S, NOBODY) > 0)
    holds = [len(list(run)) for is_held, run in groupby(held) if is_held]
    assert max(holds) == holds[-2] == 600
    assert 0.4 < sum(held) / len(held) <= 0.5


def test_what_its_own_client_keeps_out_holds_up_that_client_alone() -> None:
    line = WaitingLine()
    for now in (0.0, 1.0):
        line.refused("long", 300, 1.0, now, holds_up="eve")
        line.refused("bob's", 200, 1.0, now)
    assert line.reserved("short", 2.0, ANSWER_S, "eve") == 300
    assert line.reserved("short", 2.0, ANSWER_S, "alice") == 200
    assert line.reserved("bob's", 2.0, ANSWER_S, "bob") == 0.0
    line.refused("long", 300, 1.0, 2.0)
    assert line.reserved("short", 2.0, ANSWER_S, "alice") == 300, "its own answers have ended"
