"""A session belongs to the bearer token that opened it: with another token, knowing its id is of no use."""

import pytest

from common.protocol.messages import Commit
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SETTINGS, Client, answer, leasing, one_pass, prompt_of, returned
from tests.server.fake_target import FakeTarget, decode

PROMPT = prompt_of(1, 40)
TRUTH = decode(PROMPT, SETTINGS.max_new_tokens)


@pytest.fixture
def sessions() -> Sessions:
    return leasing()


@pytest.fixture
def fake_target() -> FakeTarget:
    return FakeTarget()


def begun(sessions: Sessions, fake_target: FakeTarget, token: str) -> Client:
    """A client some tokens into the answer of a session whose id everybody knows."""
    client = Client(sessions, "s", client=token)
    client.open(PROMPT)
    for _ in range(3):
        one_pass(sessions, fake_target)
        client.hear()
    return client


def heard(client: Client) -> list[int]:
    return [token for message in client.inbox if isinstance(message, Commit) for token in message.tokens]


@pytest.mark.parametrize("is_away", [False, True])
def test_another_token_with_the_id_hears_nothing_and_ends_nothing(
    sessions: Sessions, fake_target: FakeTarget, is_away: bool
) -> None:
    owner = begun(sessions, fake_target, "alice")
    if is_away:
        sessions.leave(owner, 0.0)
    thief = Client(sessions, "s", client="eve")
    thief.open(PROMPT)
    assert not owner.ended
    assert heard(thief) == []
    assert (len(sessions), sessions.away, sessions.counters.sessions) == (1 if is_away else 2, int(is_away), 2)
    if is_away:
        owner = returned(owner)
        assert sessions.counters.sessions == 2  # it was resumed
    for client in (owner, thief):
        answer(client, sessions, fake_target)
        assert client.session.answer == TRUTH


@pytest.mark.parametrize("token", ["alice", ""])
def test_the_same_token_comes_back_and_so_does_who_needs_none(
    sessions: Sessions, fake_target: FakeTarget, token: str
) -> None:
    """Another secret of the same name, as after a rotation, is the same token."""
    owner = begun(sessions, fake_target, token)
    back = returned(owner)
    assert owner.ended
    assert (len(sessions), sessions.counters.sessions) == (1, 1)
    answer(back, sessions, fake_target)
    assert back.session.answer == TRUTH
