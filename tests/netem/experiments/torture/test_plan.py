"""Plans come again with their seed, and hold what was promised."""

from collections import Counter

from netem.experiments.torture.plan import FaultKind, draw_fault_plan

LENGTHS = (40, 7, 1)


def plan(seed: int, may_kill: bool = True):
    return [draw_fault_plan(seed, index, LENGTHS, may_kill=may_kill) for index in range(600)]


def test_the_same_seed_draws_the_same_faults_and_another_one_others():
    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


def test_every_answer_has_one_to_five_faults_within_its_length():
    for each in plan(3):
        assert 1 <= len(each.faults) <= 5
        assert each.question == each.index % len(LENGTHS)
        at = [fault.tokens for fault in each.faults]
        assert at == sorted(at)
        assert 0 <= at[0] <= at[-1] < LENGTHS[each.question]
    assert set(Counter(len(each.faults) for each in plan(3))) == {1, 2, 3, 4, 5}


def test_servers_die_only_where_they_may():
    kinds = Counter(fault.kind for each in plan(4) for fault in each.faults)
    assert 0 < kinds[FaultKind.KILL] < min(kinds[kind] for kind in FaultKind if kind is not FaultKind.KILL)
    assert FaultKind.KILL not in {fault.kind for each in plan(4, may_kill=False) for fault in each.faults}


def test_a_blackhole_lasts_half_a_second_to_three():
    lasting = [fault.duration_s for each in plan(5) for fault in each.faults if fault.kind is FaultKind.BLACKHOLE]
    assert 0.5 <= min(lasting) < 0.7
    assert 2.8 < max(lasting) <= 3.0
