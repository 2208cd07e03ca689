"""The server drafter of each session: made once, kept over turns, dropped when its state is no longer valid."""

import pytest

from common.protocol.messages import PROTOCOL_VERSION, Open, StateRequest
from server.passes.server_drafting import MAX_SERVER_DRAFTERS
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, Client, one_pass, prompt_of
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget
from tests.server.helpers import Helpers, one_level
from tests.server.proposers import guessing, nothing
from tests.server.server_drafted import ASSISTED, begun, knowing_all, long_pass, new_sessions


def again(client: Client, state_request: StateRequest | None = None) -> Client:
    """A new stream of the same session."""
    newer = Client(client.sessions, "newer")
    newer.session = client.session
    newer.session.lost()
    newer.session.wanted_state = state_request
    for message in newer.session.reopen():
        newer.say(message)
    return newer


def test_a_server_drafter_is_made_once_for_a_session_and_told_which_draft_it_runs() -> None:
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    begun(sessions, fake_target, [3, 1])
    for _ in range(3):
        assert one_level(sessions, helpers) is not None
    assert helpers.made == [None]


def test_a_server_drafter_whose_first_level_ends_after_the_stream_is_there_when_the_client_is_back() -> None:
    sessions, fake_target, helpers = new_sessions(lease_seconds=60.0), FakeTarget(), Helpers(guessing(VOCAB))
    client = begun(sessions, fake_target, [3, 1])
    asked = sessions.claim_draft_task()
    assert asked is not None
    sessions.leave(client, 0.0)
    sessions.add_drafted_level(asked, asked.draft(helpers), 0.001)
    again(client)
    assert one_level(sessions, helpers) is not None
    assert len(helpers.made) == 1


def test_a_server_drafter_that_may_have_read_another_s_slots_is_asked_no_more() -> None:
    """The history was cut while a level was drafted, and other sessions could take its slots."""
    sessions, fake_target = new_sessions(), FakeTarget()
    prompt = prompt_of(3, 20)
    helpers = Helpers(knowing_all(prompt), fake_target)
    client = begun(sessions, fake_target, prompt)
    assert one_level(sessions, helpers) is not None
    asked = sessions.claim_draft_task()
    assert asked is not None
    client.hear()
    client.say(client.session.cancel())
    client.hear()
    client.say(client.session.extend(1, prompt_of(4, 10), ASSISTED))
    sessions.add_drafted_level(asked, asked.draft(helpers), 0.001)
    while one_level(sessions, helpers) is None:
        assert one_pass(sessions, fake_target)
    assert len(helpers.made) == 2


def test_a_parked_session_keeps_no_server_drafter() -> None:
    """The drafter would hold K/V of its own."""
    sessions, fake_target = Sessions(new_sessions().terms, SERVING_LIMITS, capacity=60), FakeTarget()
    parked, helpers = begun(sessions, fake_target, prompt_of(3, 20)), Helpers(nothing)
    assert one_level(sessions, helpers) is not None
    parked.hear()
    parked.say(parked.session.cancel())
    parked.hear()
    begun(sessions, fake_target, prompt_of(4, 45), idle="eager")
    assert [entry.drafter for entry in sessions._registry.entries] == [None, None]


def test_a_resumed_session_that_runs_another_draft_gets_another_server_drafter() -> None:
    sessions, fake_target = new_sessions(state_kinds=lambda request: STATE_KINDS), FakeTarget()
    older, helpers = begun(sessions, fake_target, [3, 1]), Helpers(guessing(VOCAB))
    assert one_level(sessions, helpers) is not None
    older.session.lost()
    for state_request in (None, STATE, STATE):
        newer = Client(sessions, "newer")
        newer.session = older.session
        newer.session.wanted_state = state_request
        for message in newer.session.reopen():
            newer.say(message)
        newer.session.lost()
        assert one_level(sessions, helpers) is not None
    assert helpers.made == [None, STATE]


def test_a_server_drafter_is_kept_from_turn_to_turn() -> None:
    """Even if a level was under way when the answer ended; a new drafter would read the whole conversation again."""
    sessions, fake_target = new_sessions(), FakeTarget()
    client, helpers = begun(sessions, fake_target, [3, 1]), Helpers(knowing_all([3, 1]), fake_target)
    now = 0.0
    while not client.done:
        now += 1.0
        batch, asked = sessions.plan(now), sessions.claim_draft_task()
        assert batch is not None
        sessions.complete(batch, fake_target.verify(batch.scheduled), now)
        client.hear()
        if asked is not None:
            sessions.add_drafted_level(asked, asked.draft(helpers), 0.001)
    assert asked is not None
    assert asked.epoch != asked.owner.session.epoch
    client.say(client.session.extend(client.session.tree.frontier, [4, 5], ASSISTED))
    helpers = Helpers(guessing(VOCAB), fake_target)
    while one_level(sessions, helpers) is None:
        long_pass(sessions, fake_target, now)
    assert helpers.made == []


def test_the_first_level_of_another_server_drafter_says_nothing_of_those_behind_it() -> None:
    """It loads the draft and reads the prompt, in the middle of a turn."""
    sessions, fake_target = new_sessions(state_kinds=lambda request: STATE_KINDS), FakeTarget()
    helpers = Helpers(guessing(VOCAB))
    client = begun(sessions, fake_target, [3, 1])
    for _ in range(2):
        one_level(sessions, helpers, 0.1)
    again(client, STATE)
    assert one_level(sessions, helpers, 100.0) is not None
    assert helpers.made == [None, STATE]
    assert sessions._pass_timings.level_s == pytest.approx(0.1)


def test_another_draft_is_tried_where_the_first_could_not_be_loaded() -> None:
    sessions, fake_target = new_sessions(state_kinds=lambda request: STATE_KINDS), FakeTarget()
    helpers = Helpers(guessing(VOCAB))
    client = begun(sessions, fake_target, [3, 1])
    asked = sessions.claim_draft_task()
    assert asked is not None
    sessions.add_drafted_level(asked, None, 0.001)
    assert sessions.claim_draft_task() is None
    again(client, STATE)
    assert one_level(sessions, helpers) is not None
    assert helpers.made == [STATE]


@pytest.mark.parametrize("fails", [False, True])
def test_a_level_of_a_draft_that_is_no_longer_wanted_leaves_nothing_behind(fails: bool) -> None:
    sessions, fake_target = new_sessions(state_kinds=lambda request: STATE_KINDS), FakeTarget()
    helpers = Helpers(guessing(VOCAB))
    client = begun(sessions, fake_target, [3, 1])
    asked = sessions.claim_draft_task()
    assert asked is not None
    level = None if fails else asked.draft(helpers)
    again(client, STATE)
    sessions.add_drafted_level(asked, level, 0.001)
    assert one_level(sessions, helpers) is not None
    assert helpers.made[-1:] == [STATE]


@pytest.mark.parametrize("under_way", [False, True])
def test_a_session_that_is_built_again_gets_another_server_drafter(under_way: bool) -> None:
    """The ids of its nodes begin again, and differ from those that the drafter knows."""
    sessions, fake_target, helpers = new_sessions(), FakeTarget(), Helpers(guessing(VOCAB))
    client = begun(sessions, fake_target, [3, 1])
    assert one_level(sessions, helpers) is not None
    asked = sessions.claim_draft_task() if under_way else None
    client.session.lost()
    rebuilt = Client(sessions, "rebuilt")
    rebuilt.say(Open(PROTOCOL_VERSION, "f", client.session.id, 1, (3, 1, 7), 3, ASSISTED))
    assert rebuilt.failed is None
    if asked is not None:
        sessions.add_drafted_level(asked, asked.draft(helpers), 0.001)
    while one_level(sessions, helpers) is None:
        assert one_pass(sessions, fake_target)
    assert len(helpers.made) == 2


def live_drafters(sessions: Sessions) -> list[int]:
    """The first tokens of the sessions that have a server drafter."""
    return [entry.session.tree.tokens[0] for entry in sessions._registry.entries if entry.drafter is not None]


@pytest.fixture
def in_a_row(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("server.passes.server_drafting.LEVELS_IN_A_ROW", 2)
    return 2


def test_only_so_many_server_drafters_exist_and_an_answer_keeps_its_own_to_its_end(in_a_row: int) -> None:
    sessions = Sessions(
        new_sessions().terms, ServingLimits(MAX_SERVER_DRAFTERS + 1, SERVING_LIMITS.pass_tokens), capacity=2000
    )
    fake_target, helpers = FakeTarget(), Helpers(guessing(VOCAB))
    crowd = range(1, MAX_SERVER_DRAFTERS + 1)
    clients = [begun(sessions, fake_target, [first, 1]) for first in crowd]
    for _ in range(in_a_row * len(crowd)):
        assert one_level(sessions, helpers) is not None
    begun(sessions, fake_target, [MAX_SERVER_DRAFTERS + 1, 1])
    (newcomer,) = [each for each in sessions._registry.entries if each.drafter is None]
    for _ in range(in_a_row * len(crowd)):
        assert one_level(sessions, helpers) is not newcomer
    assert live_drafters(sessions) == [*crowd]
    assert len(helpers.made) == MAX_SERVER_DRAFTERS
    assert newcomer.session.due() <= 0.0, "it waits for no level"
    sessions.leave(clients[4], 0.0)
    for _ in range(in_a_row + 1):
        assert one_level(sessions, helpers) is not None
    assert newcomer.drafter is not None


def test_a_session_whose_answer_is_over_loses_its_server_drafter_first(in_a_row: int) -> None:
    crowd = MAX_SERVER_DRAFTERS + 1
    sessions = Sessions(new_sessions().terms, ServingLimits(crowd, SERVING_LIMITS.pass_tokens), capacity=2000)
    fake_target, helpers = FakeTarget(), Helpers(guessing(VOCAB))
    clients = [begun(sessions, fake_target, [first, 1]) for first in range(1, crowd)]
    for _ in range(in_a_row * len(clients)):
        assert one_level(sessions, helpers) is not None
    assert len(live_drafters(sessions)) == MAX_SERVER_DRAFTERS
    clients[-1].hear()
    clients[-1].say(clients[-1].session.cancel())
    begun(sessions, fake_target, [crowd, 1])
    while crowd not in live_drafters(sessions):
        assert one_level(sessions, helpers) is not None
    assert live_drafters(sessions) == [*range(1, crowd - 1), crowd]


def test_who_is_away_keeps_no_server_drafter_that_somebody_present_wants() -> None:
    crowd = ServingLimits(2 * MAX_SERVER_DRAFTERS, SERVING_LIMITS.pass_tokens, lease_seconds=60.0)
    sessions = Sessions(new_sessions().terms, crowd, capacity=2000)
    fake_target, helpers, helped = FakeTarget(), Helpers(guessing(VOCAB)), []
    for first in range(1, 2 * MAX_SERVER_DRAFTERS):
        client = begun(sessions, fake_target, [first, 1])
        asked = one_level(sessions, helpers)
        assert asked is not None
        helped.append(asked)
        sessions.leave(client, 0.0)
    assert sessions.away == len(helped)
    assert sum(entry.drafter is not None for entry in helped) == MAX_SERVER_DRAFTERS
