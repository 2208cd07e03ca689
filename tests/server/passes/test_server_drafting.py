"""Server drafting, step by step: exact answers, whose level is next, and a level that fails harms no other session."""

import pytest

from common.protocol.messages import Settings
from common.protocol.views import Proposal
from server.passes.server_drafting import DraftedLevel
from tests.server.clients_of_sessions import Client, one_pass, prompt_of
from tests.server.fake_target import VOCAB, FakeTarget, next_token
from tests.server.helpers import Helpers, one_level
from tests.server.proposers import guessing, nothing
from tests.server.server_drafted import ASSISTED, ASSISTING, begun, knowing_all, long_pass, new_sessions, truth_of


@pytest.mark.parametrize("idle", ASSISTING)
def test_helped_answers_are_the_targets_own_and_take_fewer_passes(idle: str) -> None:
    sessions, fake_target = new_sessions(idle), FakeTarget()
    prompts = [[first, *prompt_of(first, 9 * first)] for first in (3, 4, 5)]
    helpers = Helpers(knowing_all(*prompts), fake_target)
    clients = [Client(sessions, str(prompt[:3])) for prompt in prompts]
    for client, prompt in zip(clients, prompts, strict=True):
        client.open(prompt, Settings(40))
    now = 0.0
    while not all(client.done for client in clients):
        now += 1.0
        for _ in range(9):
            one_level(sessions, helpers)
        long_pass(sessions, fake_target, now)
        for client in clients:
            client.hear()
    assert [client.session.answer for client in clients] == [truth_of(prompt) for prompt in prompts]
    assert all(client.session.passes < 20 for client in clients)
    assert sessions.counters.recomputed_tokens == 0
    for client in clients:
        sessions.leave(client, 0.0)
    assert sessions.free_slots == 2000


def test_a_server_drafter_is_told_what_the_target_chose_until_the_sequence_is_another() -> None:
    sessions, fake_target = new_sessions(), FakeTarget()
    helpers = Helpers(guessing(VOCAB), fake_target)
    client = begun(sessions, fake_target, prompt_of(3, 20))
    for _ in range(2):
        assert one_level(sessions, helpers) is not None
        assert one_pass(sessions, fake_target)
    entry = one_level(sessions, helpers)
    assert entry is not None
    view = helpers.views[-1]
    assert view.choices is not None
    told = view.choices.by_path()
    assert told == {path: next_token([*view.tokens[: view.choices.frontier], *path]) for path in told}
    assert len(told) > 1
    client.hear()
    client.say(client.session.cancel())
    client.hear()
    client.say(client.session.extend(1, prompt_of(4, 10), ASSISTED))
    assert entry.choices is None


def test_both_may_draft_at_once() -> None:
    sessions, fake_target = new_sessions(), FakeTarget()
    prompt = prompt_of(3, 20)
    client, helpers = begun(sessions, fake_target, prompt), Helpers(knowing_all(prompt), fake_target)
    propose, now = guessing(VOCAB), 0.0
    while not client.done:
        now += 1.0
        client.hear()
        if not client.done:
            client.draft(propose)
        one_level(sessions, helpers)
        one_pass(sessions, fake_target, now)
        client.hear()
    assert client.session.answer == truth_of(prompt)
    assert client.session.passes < 30, "the guesses of the client alone save two"


def test_levels_come_in_a_row_and_then_go_to_the_session_that_has_waited_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_a_row = 3
    monkeypatch.setattr("server.passes.server_drafting.LEVELS_IN_A_ROW", in_a_row)
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    begun(sessions, fake_target, [3, 1])
    begun(sessions, fake_target, [4, 1])
    turns = [one_level(sessions, helpers) for _ in range(2 * in_a_row + 1)]
    newcomer = begun(sessions, fake_target, [5, 1])
    turns += [one_level(sessions, helpers) for _ in range(3 * in_a_row - 1)]
    assert None not in turns
    rows = [turns[first : first + in_a_row] for first in range(0, len(turns), in_a_row)]
    assert all(len(set(row)) == 1 for row in rows)
    first, second, again, third, last = (row[0] for row in rows)
    assert first is not second
    assert (again, last) == (first, second)
    assert third is not None
    assert third.sink is newcomer


def test_between_passes_each_level_goes_to_the_session_that_has_waited_longest() -> None:
    sessions, fake_target, helpers = new_sessions("colocated"), FakeTarget(), Helpers(guessing(VOCAB))
    for first in (3, 4, 5):
        begun(sessions, fake_target, [first, 1], "colocated")
    turns = [one_level(sessions, helpers) for _ in range(6)]
    assert None not in turns
    assert len(set(turns[:3])) == 3
    assert turns[:3] == turns[3:]


def test_a_row_ends_when_its_session_leaves() -> None:
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    leaving = begun(sessions, fake_target, [3, 1])
    begun(sessions, fake_target, [4, 1])
    first = one_level(sessions, helpers)
    assert first is not None
    assert first.sink is leaving
    sessions.leave(leaving, 0.0)
    assert [one_level(sessions, helpers) for _ in range(2)] == 2 * [*sessions._registry.entries]


def test_a_session_that_wants_no_help_is_passed_over() -> None:
    sessions, fake_target, helpers = new_sessions("eager"), FakeTarget(), Helpers(guessing(VOCAB))
    begun(sessions, fake_target, [3, 1], idle="eager")
    helped = begun(sessions, fake_target, [4, 1], idle="assist")
    for _ in range(3):
        owner = one_level(sessions, helpers)
        assert owner is not None
        assert owner.sink is helped


@pytest.mark.parametrize(("idle", "overlaps"), [("assist", True), ("auto", True), ("colocated", False)])
def test_a_session_in_a_pass_is_helped_by_policies_that_overlap(idle: str, overlaps: bool) -> None:
    sessions, fake_target, helpers = new_sessions(idle), FakeTarget(), Helpers(guessing(VOCAB))
    begun(sessions, fake_target, [3, 1], idle)
    batch = sessions.plan(100.0)
    assert batch is not None
    assert (one_level(sessions, helpers) is not None) is overlaps
    sessions.complete(batch, fake_target.verify(batch.scheduled), 101.0)
    assert one_level(sessions, helpers) is not None


def test_a_level_for_a_session_that_left_in_between_is_ignored() -> None:
    sessions, fake_target = new_sessions(), FakeTarget()
    client = begun(sessions, fake_target, [3, 1])
    asked = sessions.claim_draft_task()
    assert asked is not None
    sessions.leave(client, 0.0)
    again = Client(sessions, str([3, 1]))
    again.open([3, 1], ASSISTED)
    one_pass(sessions, fake_target)
    sessions.add_drafted_level(asked, DraftedLevel(Helpers(nothing), [Proposal(0, 9, -0.1)]), 0.001)
    assert sessions.counters.assisted_levels == 0
    entry = sessions.claim_draft_task()
    assert entry is not None
    assert len(entry.owner.session.tree) == 0


def test_a_session_that_cannot_be_helped_goes_on_without_and_the_others_with() -> None:
    sessions, fake_target = new_sessions(), FakeTarget()
    begun(sessions, fake_target, [3, 1])
    begun(sessions, fake_target, [4, 1])
    asked = sessions.claim_draft_task()
    assert asked is not None
    sessions.add_drafted_level(asked, None, 0.001)
    assert asked.owner.session.due() <= 0.0
    owners = [one_level(sessions, Helpers(guessing(VOCAB))) for _ in range(3)]
    assert asked.owner not in owners
    assert None not in owners
    assert sessions.counters.assisted_levels == 3


def test_what_a_level_takes_is_shared_by_all_who_ask_and_a_crowd_sends_auto_away() -> None:
    sessions, fake_target, helpers = new_sessions("auto"), FakeTarget(), Helpers(guessing(VOCAB))
    client = Client(sessions, "first")
    client.open([3, 1], Settings(40, idle="auto"))
    long_pass(sessions, fake_target, 0.0, seconds=0.3)
    for _ in range(2):
        assert one_level(sessions, helpers, seconds=0.2) is not None  # one and a half in a pass
    rivals = [Client(sessions, str(number)) for number in range(3)]
    rivals[0].open([4, 1], Settings(40, idle="auto"))
    assert one_level(sessions, helpers, seconds=0.2) is not None  # three quarters of a level for each of two
    for rival in rivals[1:]:
        rival.open([4, 1], Settings(40, idle="auto"))
    assert one_level(sessions, helpers, seconds=0.2) is None
    sessions.leave(rivals[1], 0.0)
    sessions.leave(rivals[2], 0.0)
    assert one_level(sessions, helpers, seconds=0.2) is not None


def test_who_waits_for_a_level_takes_part_in_the_pass_of_another_session() -> None:
    """It would miss that pass, and levels are drafted during it too."""
    sessions, fake_target, helpers = new_sessions("auto"), FakeTarget(), Helpers(guessing(VOCAB))
    waiting = Client(sessions, "waiting")
    waiting.open([3, 1], Settings(40, idle="auto"))
    long_pass(sessions, fake_target, 0.0, seconds=1.0)
    for _ in range(3):
        assert one_level(sessions, helpers, seconds=0.1) is not None
    long_pass(sessions, fake_target, 10.0, seconds=1.0)
    now = 11.0
    assert sessions.next_due() > now
    assert sessions.plan(now) is None
    Client(sessions, "another").open([4, 1], Settings(40, idle="eager"))
    batch = sessions.plan(now)
    assert batch is not None
    assert len(batch.owners) == 2


def test_sessions_to_which_no_level_can_go_are_no_rivals() -> None:
    """Their clients are gone or slow, and the server has run ahead of their acknowledgements as far as it may."""
    sessions, fake_target, helpers = new_sessions("auto", run_ahead=4), FakeTarget(), Helpers(guessing(VOCAB))
    for first in (4, 5, 6):
        Client(sessions, f"stalled {first}").open([first, 1], Settings(40, idle="auto"))
    for now in range(10):
        long_pass(sessions, fake_target, now)
    assert one_level(sessions, helpers, seconds=0.2) is None
    alive = Client(sessions, "alive")
    alive.open([3, 1], Settings(40, idle="auto"))
    long_pass(sessions, fake_target, 10.0)
    for _ in range(3):
        owner = one_level(sessions, helpers, seconds=0.2)
        assert owner is not None
        assert owner.sink is alive


def test_while_a_level_takes_long_passes_do_not_make_levels_look_fast() -> None:
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    begun(sessions, fake_target, [3, 1])
    for _ in range(2):
        assert one_level(sessions, helpers, seconds=1.0) is not None
    asked = sessions.claim_draft_task()
    assert asked is not None
    for now in range(1, 10):
        long_pass(sessions, fake_target, now)
    assert sessions._pass_timings.level_s == 1.0
    sessions.add_drafted_level(asked, None, 1.0)
    for now in range(10, 20):
        long_pass(sessions, fake_target, now)
    assert sessions._pass_timings.level_s < 1.0


def test_the_first_level_of_a_turn_says_nothing_of_those_behind_it() -> None:
    """It reads the prompt, and the draft may have to be loaded."""
    sessions, fake_target, helpers = new_sessions("auto"), FakeTarget(), Helpers(guessing(VOCAB))
    client = Client(sessions, "first")
    client.open([3, 1], Settings(40, idle="auto"))
    long_pass(sessions, fake_target, 0.0, seconds=0.3)
    for seconds in (100.0, 0.1, 0.1):
        assert one_level(sessions, helpers, seconds) is not None


def test_each_turn_has_a_first_level_though_its_drafter_stays() -> None:
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    client, firsts = begun(sessions, fake_target, prompt_of(3, 20)), []
    for turn in range(2):
        if turn:
            client.hear()
            client.say(client.session.cancel())
            client.hear()
            client.say(client.session.extend(10, [7, 8], ASSISTED))
            one_pass(sessions, fake_target)
        for _ in range(2):
            asked = sessions.claim_draft_task()
            assert asked is not None
            firsts.append(asked.is_first)
            sessions.add_drafted_level(asked, asked.draft(helpers), 0.001)
    assert firsts == [True, False, True, False]
    assert len(helpers.made) == 1


def test_a_drafter_does_not_outlive_the_slots_that_it_read() -> None:
    """They may hold another session's K/V by now."""
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    client = begun(sessions, fake_target, prompt_of(3, 20))
    asked = sessions.claim_draft_task()
    assert asked is not None
    level = asked.draft(helpers)
    assert asked.drafter_may_stay
    client.hear()
    client.say(client.session.cancel())
    asked.owner.park()
    assert not asked.drafter_may_stay
    sessions.add_drafted_level(asked, level, 0.001)
    assert asked.owner.drafter is None


def test_auto_learns_from_first_levels_where_answers_are_too_short_for_more() -> None:
    sessions, fake_target, helpers = new_sessions("auto"), FakeTarget(), Helpers(guessing(VOCAB))
    helped = []
    for first in (3, 4, 5, 6):
        client = Client(sessions, f"short {first}")
        client.open([first, 1], Settings(10, idle="auto"))
        long_pass(sessions, fake_target, 0.0, seconds=0.3)
        helped.append(one_level(sessions, helpers, seconds=0.6) is not None)
        sessions.leave(client, 0.0)
    assert helped == [True, True, False, False]
