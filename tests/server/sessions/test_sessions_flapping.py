"""Answers over a link that keeps breaking: they advance whenever a round trip fits between two breaks."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import Settings
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, prompt_of
from tests.server.fake_target import VOCAB, decode
from tests.server.flapping import Contact, Flapping
from tests.server.proposers import guessing, knowing, nothing

LEASE = 600.0
TOKENS = 12
_MARGIN = 0.001  # seconds beyond the round trip

_CONTACTS = st.lists(
    st.builds(Contact, up=st.floats(_MARGIN, 0.2), down=st.floats(0.05, 2.0)),
    min_size=4,
    max_size=12,
)
"""`up` is what a contact lasts beyond a round trip."""


def leasing(idle: str) -> Sessions:
    return Sessions(replace(TERMS, idle=idle), replace(SERVING_LIMITS, lease_seconds=LEASE), 2000)


@settings(max_examples=60, deadline=None)
@given(
    contacts=_CONTACTS,
    unnoticed=st.sampled_from([0.0, 0.3, 3.0]),
    delay=st.floats(0.005, 0.3),
    pass_seconds=st.floats(0.01, 0.6),
    rivals=st.integers(0, 2),
    idle=st.sampled_from(["eager", "assist", "auto"]),
    skill=st.sampled_from([None, 0.0, 0.8]),
    seed=st.integers(0, 1000),
)
def test_every_few_contacts_that_hold_a_round_trip_bring_new_tokens(
    contacts, unnoticed, delay, pass_seconds, rivals, idle, skill, seed
):
    """However long a pass takes, and whatever other sessions are served."""
    contacts = [replace(contact, up=2 * delay + contact.up, unnoticed=unnoticed) for contact in contacts]
    sessions, prompt = leasing(idle), prompt_of(seed, 10)
    truth = decode(prompt, TOKENS)
    propose = nothing if skill is None else knowing(prompt + truth, skill, VOCAB, seed) if skill else guessing(VOCAB, 1)
    link = Flapping(sessions, delay, pass_seconds, propose, rivals)
    # One contact brings what is asked, the pass of somebody else ends, the own pass follows, and one contact takes
    # what came of it.
    shortest = min(contact.up + contact.down for contact in contacts)
    patience = 2 + math.ceil(2 * pass_seconds / shortest)
    link.begin(prompt, Settings(TOKENS), contacts[0])
    known, without_news = len(link.session.answer), 0
    for contact in (contacts * (patience * TOKENS))[1:]:
        if link.session.finished is not None:
            break
        link.again(contact)
        without_news = 0 if len(link.session.answer) > known else without_news + 1
        known = len(link.session.answer)
        assert without_news <= patience
    assert link.session.answer == truth
    assert link.session.finished is not None
    assert sessions.counters.failed == sessions.counters.refused == {}
    assert sessions.counters.recomputed_tokens == 0
