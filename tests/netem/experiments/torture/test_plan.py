"""Plans come again with their seed, and hold what was promised."""

from collections import Counter

from netem.experiments.torture.plan import Kind, draw_generation

LENGTHS = (40, 7, 1)


def plan(seed: int, may_kill: bool = True):
    return [draw_generation(seed, index, LENGTHS, may_kill=may_kill) for index in range(600)]


def test_the_same_seed_draws_the_same_cuts_and_another_one_others():
    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


def test_every_answer_is_cut_one_to_five_times_within_its_length():
    for generation in plan(3):
        assert 1 <= len(generation.cuts) <= 5
        assert generation.question == generation.index % len(LENGTHS)
        at = [cut.tokens for cut in generation.cuts]
        assert at == sorted(at)
        assert 0 <= at[0] <= at[-1] < LENGTHS[generation.question]
    assert set(Counter(len(generation.cuts) for generation in plan(3))) == {1, 2, 3, 4, 5}


def test_servers_die_only_where_they_may():
    kinds = Counter(cut.kind for generation in plan(4) for cut in generation.cuts)
    assert 0 < kinds[Kind.KILL] < min(kinds[kind] for kind in Kind if kind is not Kind.KILL)
    assert Kind.KILL not in {cut.kind for generation in plan(4, may_kill=False) for cut in generation.cuts}


def test_a_blackhole_lasts_half_a_second_to_three():
    lasting = [cut.seconds for generation in plan(5) for cut in generation.cuts if cut.kind is Kind.BLACKHOLE]
    assert 0.5 <= min(lasting) < 0.7
    assert 2.8 < max(lasting) <= 3.0
