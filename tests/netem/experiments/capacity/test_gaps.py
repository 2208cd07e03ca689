"""Which gaps of answers count, and for how long."""

import pytest

from netem.experiments.capacity.gaps import GapRecorder, together


def test_gaps_count_from_the_beginning_to_the_end_of_the_window() -> None:
    gaps = GapRecorder(begins_s=1.0)
    for now_s, tokens in ((0.2, 1), (0.6, 2), (1.1, 3), (1.4, 4)):
        gaps.committed(0, "lan", tokens, now_s)
    seen = gaps.seen(["lan"], 2.0)["lan"]
    assert seen.gaps == pytest.approx([0.5, 0.3, 0.6])
    assert (seen.tokens, seen.client_seconds) == (7, pytest.approx(1.0))


def test_a_gap_that_no_commit_ends_counts() -> None:
    gaps = GapRecorder(begins_s=1.0)
    gaps.committed(0, "lan", 1, 0.5)
    seen = gaps.seen(["lan", "5g"], 4.0)
    assert (seen["lan"].tokens_per_client_second, seen["lan"].gap_p95_s) == (0.0, 3.5)
    assert seen["5g"].gaps == []


def test_the_wait_for_an_answers_first_token_is_no_gap() -> None:
    gaps = GapRecorder(begins_s=0.0)
    gaps.committed(0, "lan", 5, 1.0)
    gaps.committed(0, "lan", 1, 1.5)
    gaps.answered(0)
    gaps.committed(0, "5g", 5, 3.0)
    gaps.committed(1, "5g", 5, 3.0)
    gaps.committed(0, "5g", 2, 3.25)
    gaps.answered(0)
    gaps.answered(1)
    whole = together(list(gaps.seen(["lan", "5g"], 9.0).values()))
    assert (whole.gaps, whole.tokens, whole.client_seconds) == ([0.5, 0.25], 3, 0.75)
