"""Sessions for which the device had no memory in a pass: put away, brought back with fewer tokens, ended at last."""

import pytest

from common.protocol.messages import FailureCode
from common.protocol.views import Proposal
from server.refusal import AdmissionRefusedError, RefusalReason
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import (
    LEASE,
    SETTINGS,
    Client,
    answer,
    leasing,
    nothing_is_held,
    one_pass,
    prompt_of,
    returned,
)
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.helpers import Helpers, one_level
from tests.server.proposers import guessing
from tests.server.server_drafted import begun, new_sessions


@pytest.fixture
def sessions() -> Sessions:
    return leasing()


NO_MEMORY = AdmissionRefusedError(RefusalReason.MEMORY, "no memory", 1.0)


def test_an_answer_without_memory_on_the_device_is_put_away_and_comes_back(sessions: Sessions) -> None:
    fake_target, client, other = FakeTarget(), Client(sessions, "s"), Client(sessions, "t")
    client.open([3, 4, 5])
    other.open([6, 7])
    for _ in range(3):
        one_pass(sessions, fake_target)
    batch = sessions.plan(0.0)
    assert batch is not None
    sessions.complete(batch, [NO_MEMORY, *fake_target.verify(batch.scheduled)[1:]], 0.0)
    assert (len(sessions), sessions.away) == (1, 1)
    assert sessions.counters.refused == {RefusalReason.MEMORY: 1}
    assert client.failed is not None
    assert (client.failed.code, client.failed.retry_after) == (FailureCode.MEMORY, 1.0)
    answer(other, sessions, fake_target)
    assert other.session.answer == decode([6, 7], SETTINGS.max_new_tokens)
    client.hear()
    client.inbox.clear()
    client = returned(client)
    answer(client, sessions, fake_target)
    assert client.session.answer == decode([3, 4, 5], SETTINGS.max_new_tokens)
    assert sessions.counters.recomputed_tokens == 0


def test_the_lease_of_an_answer_without_memory_begins_with_the_refusal(sessions: Sessions) -> None:
    """However long ago its last token was."""
    client, refused = Client(sessions, "s"), LEASE + 1
    client.open(prompt_of(1, 10))
    one_pass(sessions, FakeTarget())
    batch = sessions.plan(refused)
    assert batch is not None
    sessions.complete(batch, [NO_MEMORY], refused)
    assert sessions.plan(refused) is None
    assert sessions.away == 1
    assert sessions.next_due() == refused + LEASE


@pytest.mark.parametrize("decodes_first", [True, False])
def test_an_answer_without_memory_for_one_token_ends_when_that_is_told_twice(
    sessions: Sessions, decodes_first: bool
) -> None:
    """Else its client would come back and fail again for ever."""
    client = Client(sessions, "s")
    client.open(prompt_of(1, 40))
    if decodes_first:
        one_pass(sessions, FakeTarget())
    sizes: list[int] = []
    for _ in range(2):
        while client.failed is None:
            assert len(sizes) < 20
            batch = sessions.plan(0.0)
            assert batch is not None
            sizes.append(batch.work.tokens)
            sessions.complete(batch, [NO_MEMORY], 0.0)
        told = client.failed
        client.hear()
        client.inbox.clear()
        if sessions.away:
            client = returned(client)
    assert sizes == ([1, 1] if decodes_first else [40, 20, 10, 5, 2, 1, 1])
    assert told.code is FailureCode.INTERNAL
    assert "shorten the prompt" in told.message
    assert nothing_is_held(sessions)


def test_the_nodes_of_an_answer_give_way_to_its_device(sessions: Sessions) -> None:
    """Half as many after a shortage, and one more with every pass that fits."""
    fake_target, client, prompt = FakeTarget(), Client(sessions, "s"), prompt_of(1, 10)
    truth = decode(prompt, SETTINGS.max_new_tokens)
    client.open(prompt)
    one_pass(sessions, fake_target)
    client.hear()
    sizes: list[int] = []
    while not client.done:
        for _ in range(20):
            client.draft(guessing(VOCAB, 1))
        batch = sessions.plan(0.0)
        assert batch is not None
        assert len(sizes) < 100
        sizes.append(batch.work.tokens)
        fits = sizes[-1] <= 9
        sessions.complete(batch, fake_target.verify(batch.scheduled) if fits else [NO_MEMORY], 0.0)
        client.hear()
    assert sizes[0] > 10
    assert sizes[1] == sizes[0] // 2
    assert client.session.answer == truth
    assert sessions.counters.failed == sessions.counters.refused == {}
    assert max(sizes[2:]) == 10


def test_a_group_that_is_verified_whatever_it_costs_gives_way_to_the_device_too(sessions: Sessions) -> None:
    client = Client(sessions, "s")
    client.open(prompt_of(1, 10))
    one_pass(sessions, FakeTarget())
    client.hear()
    client.draft(lambda view: [Proposal(0, token, -1.0) for token in range(8)])
    entry = sessions._registry.entry_of(client)
    assert entry is not None
    entry.session.tree.grouped = True
    assert (entry.demand.nodes, entry.demand.min_nodes) == (8, 8)
    entry.most_tokens = 4
    assert (entry.demand.nodes, entry.demand.min_nodes) == (3, 3)


def test_server_drafters_without_a_running_answer_give_way_to_the_device() -> None:
    """Each may hold K/V of a whole sequence: the device would lack it for nothing."""
    sessions, fake_target, helpers = new_sessions("colocated", LEASE), FakeTarget(), Helpers(guessing(VOCAB))
    away, done, running = (begun(sessions, fake_target, [first, 1], "colocated") for first in (3, 4, 5))
    for _ in range(3):
        one_level(sessions, helpers)
    sessions.leave(away, 0.0)
    done.say(done.session.cancel())
    assert sessions.server_drafters == 3
    batch = sessions.plan(0.0)
    assert batch is not None
    assert [owner.sink for owner in batch.owners] == [running]
    sessions.complete(batch, [NO_MEMORY], 0.0)
    assert sessions.server_drafters == 1
    assert batch.owners[0].drafter is not None, "its answer goes on, with fewer tokens in a pass"
