"""Tokens that the target has computed before are noticed when they are scheduled again."""

import pytest

from common.protocol.rules.verify_input import VerifyInput
from common.protocol.sampling import LIKELIEST
from common.protocol.scheduled_tokens import ScheduledTokens
from server.sessions.computed_tokens import ComputedTokens


def chain(start: int, *tokens: int) -> ScheduledTokens:
    """A part of a prompt."""
    return ScheduledTokens(start, tokens, None, 0)


def with_nodes(start: int, root: int, *nodes: int) -> ScheduledTokens:
    """A root with one chain of nodes below it."""
    rows = (root, *nodes)
    verify_input = VerifyInput("greedy", LIKELIEST, start + 1, rows, tuple(range(-1, len(nodes))))
    return ScheduledTokens(start, (root,), verify_input, 0)


def test_only_the_same_tokens_at_the_same_place_are_repeats() -> None:
    computed = ComputedTokens()
    assert computed.count_repeats(chain(0, 5, 6, 7)) == 0
    computed.add(chain(0, 5, 6, 7), [])
    assert computed.count_repeats(chain(1, 6, 8)) == 1
    assert computed.count_repeats(chain(1, 8, 7)) == 0
    computed.add(chain(1, 6, 8), [])
    assert computed.count_repeats(chain(1, 6, 7)) == 1


def test_what_was_computed_counts_even_where_its_slot_was_lost() -> None:
    computed = ComputedTokens()
    computed.add(with_nodes(0, 5, 6, 7, 9), [6, 7, 8])
    assert computed.count_repeats(chain(1, 6, 7, 8)) == 2


def test_a_mistake_in_whose_slots_are_kept_hides_no_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScheduledTokens, "path", lambda scheduled, tokens: ())
    computed, rows = ComputedTokens(), (5, 6, 7, 8, 9, 6)
    tree = VerifyInput("greedy", LIKELIEST, 1, rows, (-1, 0, 0, 1, 2, 3))
    computed.add(ScheduledTokens(0, rows[:1], tree, 0), [7, 9, 6])
    assert computed.count_repeats(chain(1, 7, 9, 6)) == 2


def test_a_root_that_is_computed_again_for_its_logits_is_no_repeat() -> None:
    computed = ComputedTokens()
    computed.add(chain(0, 5, 6, 7), [])
    assert computed.count_repeats(with_nodes(2, 7)) == 0
    assert computed.count_repeats(chain(2, 7)) == 1


def test_to_adopt_what_is_known_already_forgets_nothing_behind_it() -> None:
    computed = ComputedTokens()
    computed.add(chain(0, 5, 6, 7), [])
    computed.adopt(0, (5, 6))
    assert computed.count_repeats(chain(0, 5, 6, 7)) == 3
    computed.adopt(2, (7, 8))
    assert computed.count_repeats(chain(0, 5, 6, 7, 8)) == 4


def test_what_was_given_up_on_purpose_is_no_repeat() -> None:
    computed = ComputedTokens()
    computed.add(chain(0, 5, 6), [])
    computed.clear()
    assert computed.count_repeats(chain(0, 5, 6)) == 0


def test_what_a_client_left_and_returned_to_is_no_repeat() -> None:
    computed = ComputedTokens()
    computed.add(chain(0, 5, 6, 7), [])
    computed.follow((5, 8))
    computed.follow((5, 6, 7, 9))
    assert computed.count_repeats(chain(0, 5, 6, 7)) == 1
    assert computed.count_repeats(chain(1, 6, 7)) == 0
