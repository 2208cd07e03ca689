"""Whose turn it is among those who wait for K/V, by age."""

from server.waiting_line import WaitingLine


def test_room_is_kept_for_the_oldest_that_came_back() -> None:
    line = WaitingLine()
    line.refused("long", 300, 1.0, 0.0)
    assert line.reserved("short", 0.5) == 0.0  # it may never come back
    line.refused("long", 300, 1.0, 1.0)
    line.refused("longer", 900, 1.0, 1.0)
    line.refused("longer", 900, 1.0, 2.0)
    assert line.reserved("short", 2.0) == 300
    assert line.reserved("longer", 2.0) == 300
    assert line.reserved("long", 2.0) == 0.0
    line.served("long")
    assert line.reserved("short", 2.0) == 900


def test_who_stays_away_holds_up_nobody() -> None:
    line = WaitingLine()
    for now in (0.0, 1.0):
        line.refused("gone", 300, 1.0, now)
    assert line.reserved("short", 4.0) == 300
    assert line.reserved("short", 4.1) == 0.0
    assert len(line) == 0


def test_strangers_fill_no_memory() -> None:
    line = WaitingLine()
    for number in range(10_000):
        line.refused(number, 1, 1.0, 0.0)
    assert len(line) == 256
