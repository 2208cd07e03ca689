"""The radix tree: what is found, who shares, and what goes when slots are wanted."""

import pytest

from common.models.slots import SlotPool
from server.passes.prefix_tree import PrefixTree
from server.passes.sequence import HeldSequence


@pytest.fixture
def pool() -> SlotPool:
    return SlotPool(100)


@pytest.fixture
def cache(pool: SlotPool) -> PrefixTree:
    return PrefixTree(pool)


def shared(cache: PrefixTree, tokens: list[int], owner: str = "alice") -> HeldSequence:
    """A sequence that computed what the cache did not hold, and gave it to the cache."""
    sequence = HeldSequence(cache, owner)
    sequence.adopt(tokens, len(tokens))
    sequence.keep(sequence.take(len(tokens) - len(sequence)))
    sequence.publish(tokens)
    return sequence


def found(cache: PrefixTree, tokens: list[int], owner: str = "alice") -> int:
    sequence = HeldSequence(cache, owner)
    sequence.adopt(tokens, len(tokens))
    length = len(sequence)
    sequence.cut(0)
    return length


def test_the_longest_common_beginning_is_found_to_the_token(cache: PrefixTree) -> None:
    shared(cache, [1, 2, 3, 4, 5])
    shared(cache, [1, 2, 9, 9])
    wanted = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 7], [1, 2, 9], [1], [2, 3], []]
    assert [found(cache, tokens) for tokens in wanted] == [5, 3, 3, 1, 0, 0]


def test_the_slots_of_a_common_beginning_are_the_same_and_taken_once(cache: PrefixTree, pool: SlotPool) -> None:
    first, second = shared(cache, [1, 2, 3, 4]), shared(cache, [1, 2, 7, 8, 9])
    assert pool.free == 100 - 7
    assert first.slots[:2].tolist() == second.slots[:2].tolist()
    assert set(first.slots[2:].tolist()).isdisjoint(second.slots[2:].tolist())


def test_owners_share_nothing_with_each_other(cache: PrefixTree) -> None:
    shared(cache, [1, 2, 3], owner="alice")
    assert [found(cache, [1, 2, 3], owner) for owner in ("alice", "bob")] == [3, 0]


def test_slots_that_two_computed_are_kept_once(cache: PrefixTree, pool: SlotPool) -> None:
    sequences = [HeldSequence(cache, "alice") for _ in range(2)]
    for sequence in sequences:
        sequence.keep(sequence.take(5))
    sequences[0].publish([1, 2, 3, 4, 5])
    sequences[1].publish([1, 2, 3, 9, 9])
    assert pool.free == 100 - 7
    assert sequences[0].slots[:3].tolist() == sequences[1].slots[:3].tolist()
    assert [sequence.cuts for sequence in sequences] == [0, 1], "drafters must know that slots were given back"


def test_what_is_used_stays_and_what_was_left_first_goes_first(cache: PrefixTree, pool: SlotPool) -> None:
    used, first, second = (shared(cache, [token] * 20) for token in (1, 2, 3))
    first.cut(0)
    second.cut(0)
    assert cache.evictable == 40
    cache.evict(1)
    assert [found(cache, [token] * 20) for token in (1, 2, 3)] == [20, 0, 20]
    cache.evict(1000)
    assert [found(cache, [token] * 20) for token in (1, 2, 3)] == [20, 0, 0]
    assert (pool.free, cache.evictable) == (80, 0)
    used.cut(0)
    cache.evict(20)
    assert pool.free == 100


def test_use_renews_what_would_have_gone(cache: PrefixTree) -> None:
    for token in (1, 2):
        shared(cache, [token] * 20).cut(0)
    assert found(cache, [1] * 20) == 20
    cache.evict(1)
    assert [found(cache, [token] * 20) for token in (1, 2)] == [20, 0]


def test_leaves_go_whole_and_before_what_they_follow(cache: PrefixTree) -> None:
    trunk, branch = [1] * 30, [1] * 30 + [2] * 10
    sequences = [shared(cache, trunk), shared(cache, branch)]
    for sequence in sequences:
        sequence.cut(0)
    cache.evict(1)
    assert found(cache, branch) == 30
    cache.evict(1)
    assert found(cache, branch) == 0


def test_a_sequence_may_leave_its_path_in_the_middle(cache: PrefixTree, pool: SlotPool) -> None:
    sequence, other = shared(cache, [1, 2, 3, 4, 5, 6]), shared(cache, [1, 2, 3, 4, 5, 6])
    sequence.cut(4)
    assert (len(sequence), sequence.shared, cache.evictable) == (4, 4, 0)
    other.cut(2)
    assert cache.evictable == 2
    sequence.keep(sequence.take(2))
    sequence.publish([1, 2, 3, 4, 7, 8])
    assert [found(cache, tokens) for tokens in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 7, 8])] == [6, 6]
    assert pool.free == 92


def test_an_answer_that_nobody_shares_is_one_leaf(cache: PrefixTree) -> None:
    sequence = shared(cache, [1, 2])
    for token in range(3, 20):
        sequence.keep(sequence.take(1))
        sequence.publish(range(1, token + 1))
    sequence.cut(0)
    cache.evict(1)
    assert cache.evictable == 0


def test_the_root_of_an_owner_goes_with_its_last_slot(cache: PrefixTree) -> None:
    for session in range(8):
        shared(cache, [1, 2], owner=f"session {session}").cut(0)
    assert len(cache._roots) == 8
    cache.evict(100)
    assert len(cache._roots) == 0
