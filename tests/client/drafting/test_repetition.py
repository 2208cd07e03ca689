"""Loops are detected, and text that only looks similar is left alone."""

import random
from itertools import chain, cycle, islice

import pytest

from client.drafting.repetition import repeats_itself


def seen_after(tokens) -> int | None:
    return next((count for count in range(len(tokens) + 1) if repeats_itself(tokens[:count])), None)


@pytest.mark.parametrize("period", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("before", [0, 30])
def test_a_loop_is_seen_within_two_lines_of_its_second_round(period, before):
    loop = islice(cycle(range(1000, 1000 + period)), 300)
    seen = seen_after([*range(before), *loop])
    assert seen is not None
    assert seen - before <= period + 40


def test_a_loop_whose_copies_differ_is_seen():
    # As small drafts write: the same few phrases in ever different orders.
    phrases = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 7, 8, 6], [9, 10, 11, 4, 5, 6]]
    draw = random.Random(3)
    assert seen_after(list(chain.from_iterable(draw.choice(phrases) for _ in range(60)))) is not None


def test_rows_of_a_table_and_text_without_end_are_no_loops():
    table = list(chain.from_iterable([1, 2, 100 + row, 2, 3, 4, 5, 200 + row, 6, 7] for row in range(60)))
    assert seen_after(table) is None
    assert seen_after(random.Random(1).choices(range(50), k=600)) is None
    refrain = list(range(30))
    verses = [[*range(100 * verse, 100 * verse + 40), *refrain] for verse in range(1, 6)]
    assert seen_after(list(chain.from_iterable(verses))) is None
    assert not repeats_itself([])
