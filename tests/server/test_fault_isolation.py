"""Whoever raises fails alone, asked one by one or together."""

import logging
from collections.abc import Sequence

import pytest

from server.fault_isolation import FaultIsolation


def inverse(owner: int) -> float:
    return 1 / owner


def inverses(owners: Sequence[int]) -> list[float]:
    return [inverse(owner) for owner in owners]


def fails_nobody(owner: int) -> None:
    pytest.fail(f"{owner} failed")


def test_who_raises_fails_and_the_others_are_answered() -> None:
    failed: list[int] = []
    isolation = FaultIsolation("now", failed.append)
    assert isolation.call_each([1, 0, 2], inverse) == [(1, 1.0), (2, 0.5)]
    assert isolation.call_together([1, 0, 2], inverses) == [(1, 1.0), (2, 0.5)]
    assert failed == [0, 0]


def test_who_gets_no_answer_together_is_asked_alone() -> None:
    isolation = FaultIsolation("now", fails_nobody)
    assert isolation.call_together([1, 2], lambda owners: inverses(owners[:1])) == [(1, 1.0), (2, 0.5)]


def test_a_fault_that_nobody_has_alone_ends_nobody_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def only_alone(owners: Sequence[int]) -> list[float]:
        if len(owners) > 1:
            raise MemoryError
        return inverses(owners)

    isolation = FaultIsolation("at a time of its own", fails_nobody)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert isolation.call_together([1, 2], only_alone) == [(1, 1.0), (2, 0.5)]
    (record,) = caplog.records
    assert "none alone, at a time of its own" in record.getMessage()
    assert "MemoryError in test_fault_isolation.py" in record.getMessage()


def test_what_fails_in_a_context_ends_its_owner_and_nothing_else() -> None:
    failed: list[int] = []
    isolation = FaultIsolation("now", failed.append)
    for owner in (1, 0):
        with isolation(owner):
            inverse(owner)
    assert failed == [0]
    with pytest.raises(KeyboardInterrupt), isolation(2):
        raise KeyboardInterrupt
    assert failed == [0]
