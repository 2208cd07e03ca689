"""server.passes.context_cost: coefficients are found again in noise, and passes that say nothing about them leave 0."""

import random
from collections.abc import Iterator

import pytest

from server.passes.context_cost import ContextCost

READ_S, SCORE_S = 2.8e-6, 1.75e-7  # as measured of a small target on one CPU core
Pass = tuple[int, int, int]
"""Tokens, positions read, scores."""


def prompt_and_decoding(draws: random.Random) -> Iterator[Pass]:
    """Prompts in chunks of 64 tokens; in between four sessions decode, with trees, at contexts that grow."""
    contexts = [draws.randrange(4000) for _ in range(4)]
    while True:
        for context in range(0, 4096, 64):
            yield 64, context, 64 * context
            nodes = [draws.randrange(1, 8) for _ in contexts]
            yield sum(nodes), sum(contexts), sum(n * c for n, c in zip(nodes, contexts, strict=True))
            contexts = [(context + draws.randrange(3)) % 4096 for context in contexts]


def learnt(passes: list[Pass], noise: float = 0.0, read_s: float = READ_S, score_s: float = SCORE_S) -> ContextCost:
    cost, draws = ContextCost(), random.Random(7)
    for tokens, read, scores in passes:
        seconds = (0.015 + 0.0008 * tokens + read_s * read + score_s * scores) * (1 + draws.gauss(0, noise))
        cost.observe(tokens.bit_length(), tokens, read, scores, seconds)
    return cost


def first(count: int) -> list[Pass]:
    passes = prompt_and_decoding(random.Random(3))
    return [next(passes) for _ in range(count)]


@pytest.mark.parametrize(("noise", "within"), [(0.0, 0.01), (0.1, 0.25)])
def test_coefficients_are_found_again(noise: float, within: float) -> None:
    cost = learnt(first(2000), noise)
    assert cost.seconds_per_read == pytest.approx(READ_S, rel=within)
    assert cost.seconds_per_score == pytest.approx(SCORE_S, rel=within)


def test_slow_passes_now_and_then_change_little() -> None:
    cost, draws = ContextCost(), random.Random(7)
    for tokens, read, scores in first(2000):
        seconds = 0.015 + 0.0008 * tokens + READ_S * read + SCORE_S * scores
        cost.observe(tokens.bit_length(), tokens, read, scores, seconds * (50 if draws.random() < 0.01 else 1))
    assert cost.seconds(4096, 64 * 4096) == pytest.approx(READ_S * 4096 + SCORE_S * 64 * 4096, rel=0.25)


@pytest.mark.parametrize(("read_s", "score_s"), [(0.0, 0.0), (READ_S, 0.0), (0.0, SCORE_S)])
def test_what_costs_nothing_stays_near_nothing(read_s: float, score_s: float) -> None:
    cost = learnt(first(2000), 0.1, read_s, score_s)
    assert 0 <= cost.seconds_per_read * 4096 <= 0.0015 + 1.25 * read_s * 4096
    assert 0 <= cost.seconds_per_score * 65536 <= 0.0015 + 1.25 * score_s * 65536


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_passes_that_are_all_alike_say_nothing_about_the_context(noise: float) -> None:
    cost = learnt([(8, 4000, 8000)] * 500, noise)
    assert (cost.seconds_per_read, cost.seconds_per_score) == (0, 0)


def test_passes_that_are_nearly_alike_say_little() -> None:
    cost = learnt([(8, 4000 + number % 3, 8 * (4000 + number % 3)) for number in range(500)], 0.2)
    assert cost.seconds(8000, 64_000) < 0.03


def test_where_sessions_only_decode_their_time_goes_to_reading() -> None:
    """One token each, so that reading and scoring cannot be told apart."""
    cost = learnt([(4, read, read) for read in range(0, 16_000, 40)], 0.02)
    assert cost.seconds(8000, 8000) == pytest.approx(8000 * (READ_S + SCORE_S), rel=0.2)
    assert cost.seconds_per_read > 10 * cost.seconds_per_score


def test_where_only_prompts_are_computed_their_time_goes_to_scores() -> None:
    cost = learnt([(512, read, 512 * read) for read in range(0, 16_000, 40)], 0.02)
    assert cost.seconds(8000, 512 * 8000) == pytest.approx(8000 * (READ_S + 512 * SCORE_S), rel=0.2)
    assert cost.seconds_per_score > cost.seconds_per_read / 50


def test_passes_that_get_faster_with_the_context_have_no_negative_price() -> None:
    cost = learnt(first(500), 0.0, -1e-6, SCORE_S)
    assert cost.seconds_per_read == 0
    assert cost.seconds_per_score > 0


def test_it_follows_a_machine_that_changes() -> None:
    cost = learnt(first(4096) + first(9000), 0.05)
    draws = random.Random(9)
    for tokens, read, scores in first(12_000):
        seconds = (0.015 + 0.0008 * tokens + 3 * (READ_S * read + SCORE_S * scores)) * (1 + draws.gauss(0, 0.05))
        cost.observe(tokens.bit_length(), tokens, read, scores, seconds)
    assert cost.seconds(4096, 65_536) > 2 * (READ_S * 4096 + SCORE_S * 65_536)
