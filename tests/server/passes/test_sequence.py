"""The slots of one session: none is lost, and none is given out twice."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.models.slot_ranges import split_ranges
from common.models.slots import SlotPool
from server.passes.prefix_tree import PrefixTree
from server.passes.sequence import NO_STAMP, HeldSequence


def test_slots_are_kept_in_order_and_given_back() -> None:
    pool = SlotPool(1000)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(70))
    sequence.keep(pool.take(400))
    assert np.array_equal(sequence.slots, np.arange(470))
    sequence.cut(100)
    assert (len(sequence), pool.free) == (100, 900)
    sequence.cut(0)
    assert pool.free == 1000


def test_more_than_is_held_cannot_be_cut_to() -> None:
    with pytest.raises(ValueError, match="should be held"):
        HeldSequence(PrefixTree(SlotPool(4)), "").cut(1)


def test_slots_seen_by_a_running_pass_do_not_change_under_it() -> None:
    pool = SlotPool(200)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(3))
    seen = sequence.slots
    sequence.cut(1)
    assert seen.tolist() == [0, 1, 2]


def test_it_counts_how_often_slots_were_given_back() -> None:
    pool = SlotPool(100)
    sequence = HeldSequence(PrefixTree(pool), "")
    sequence.keep(pool.take(3))
    counts = []
    for length in (3, 2, 2, 0):
        sequence.cut(length)
        counts.append(sequence.cuts)
    assert counts == [0, 1, 1, 2]


class Conversation:
    """A sequence that reads its prompt in one pass, then decodes a few tokens a pass, with nodes that are rejected."""

    nodes = 16

    def __init__(self, cache: PrefixTree, prompt: list[int], answer: int, rng: random.Random):
        self.sequence, self._tokens, self._end, self._rng = HeldSequence(cache, ""), prompt, len(prompt) + answer, rng
        self.sequence.adopt(prompt, len(prompt) - 1)
        self._slots: list[int] = []

    @property
    def wanted(self) -> int:
        return len(self._tokens) - len(self.sequence) + self.nodes

    def take(self) -> None:
        self._slots = self.sequence.take(self.wanted)

    def keep(self, pool: SlotPool) -> bool:
        """Whether there is more to come."""
        kept = len(self._slots) - self.nodes + self._rng.randrange(4)
        self.sequence.keep(self._slots[:kept])
        pool.give(self._slots[kept:])
        while len(self._tokens) <= len(self.sequence):
            self._tokens.append(self._rng.randrange(50))
        if len(self.sequence) - self.sequence.shared >= 64:
            self.sequence.publish(self._tokens)
        return len(self._tokens) < self._end


def test_slots_stay_in_long_ranges_where_the_cache_fills_the_pool() -> None:
    """Eight conversations at a time, which decode side by side; every third begins as an earlier one."""
    pool, rng = SlotPool(8000), random.Random(1)
    cache, live, lengths = PrefixTree(pool), [], []
    prompts = [[rng.randrange(50) for _ in range(rng.randrange(100, 500))] for _ in range(100)]
    for index, prompt in enumerate(prompts):
        older = prompts[rng.randrange(index)] if index % 3 == 2 else []
        live.append(Conversation(cache, older + prompt, rng.randrange(50, 200), rng))
        while len(live) == 8:
            cache.evict(max(0, sum(each.wanted for each in live) - pool.free))
            for each in live:
                each.take()
            over = [each for each in live if not each.keep(pool)]
            live = [each for each in live if each not in over]
            for each in over:
                each.sequence.cut(0)
        lengths += [len(each.sequence) / len(split_ranges(each.sequence.slots)[0]) for each in live[:-1] if index > 40]
    assert pool.free < 2000, "the cache does not fill the pool"
    assert np.mean(lengths) > 200


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_slot_with_its_stamp_stands_for_one_prefix_for_ever(seed: int) -> None:
    """Two owners' sequences with common beginnings are computed, shared, cut and evicted in any order."""
    rng, pool = random.Random(seed), SlotPool(60)
    cache, meaning = PrefixTree(pool), dict[tuple[int, int], tuple[str, tuple[int, ...]]]()
    live: list[tuple[str, HeldSequence, list[int]]] = []
    for _ in range(60):
        action = rng.choice(["open", "compute", "compute", "share", "cut", "end", "evict"])
        if action == "open" and len(live) < 4:
            owner, tokens = rng.choice("ab"), [rng.randrange(2) for _ in range(20)]
            live.append((owner, HeldSequence(cache, owner), tokens))
            live[-1][1].adopt(tokens, len(tokens) - 1)
        elif action == "evict":
            cache.evict(rng.randrange(20))
        elif live:
            _, sequence, tokens = each = rng.choice(live)
            if action == "compute":
                sequence.keep(pool.take(min(rng.randrange(12), pool.free, len(tokens) - len(sequence))))
            elif action == "share":
                sequence.publish(tokens)
            elif action == "cut":
                sequence.cut(rng.randrange(len(sequence) + 1))
            elif action == "end":
                sequence.cut(0)
                live.remove(each)
        for owner, sequence, tokens in live:
            stamps = sequence.stamps(0, len(sequence)).tolist()
            assert [stamp != NO_STAMP for stamp in stamps] == [at < sequence.shared for at in range(len(sequence))]
            for at, (slot, stamp) in enumerate(zip(sequence.slots.tolist(), stamps, strict=True)):
                if stamp != NO_STAMP:
                    prefix = owner, tuple(tokens[: at + 1])
                    assert meaning.setdefault((slot, stamp), prefix) == prefix
            assert np.array_equal(sequence.stamps(2, 5), stamps[2:5]) or len(sequence) < 5
