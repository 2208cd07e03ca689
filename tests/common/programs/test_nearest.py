"""common.programs.nearest: a known name is suggested where the written one is similar, and only there."""

import pytest

from common.programs.nearest import did_you_mean

KNOWN = ("retry", "stats", "quit")


@pytest.mark.parametrize(
    ("name", "question"),
    [("quti", "did you mean /quit?"), ("sta", "did you mean /stats?"), ("zebra", ""), ("", "")],
)
def test_the_nearest_is_offered_as_it_is_written(name: str, question: str) -> None:
    assert did_you_mean(name, KNOWN, "/{}") == question


@pytest.mark.parametrize(
    ("name", "known"),
    [("frobnicate", ("online", "offline")), ("nonsense", ("seed", "system")), ("nope", ("coupled", "replicas"))],
)
def test_what_is_only_a_little_alike_is_not_offered(name: str, known: tuple[str, ...]) -> None:
    assert did_you_mean(name, known) == ""


def test_how_alike_it_has_to_be_is_up_to_the_caller() -> None:
    assert did_you_mean("sta", KNOWN, alike=0.75) == "did you mean stats?"
    assert did_you_mean("sta", KNOWN, alike=0.76) == ""
