"""Exactness with broken streams: they break in mid-answer, again and again, and servers lose sessions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import Settings
from tests.common.protocol.fakes import REQUEST, decode_alone, terms
from tests.common.protocol.joined import Joined, LinkFaults

CUTS = st.builds(
    LinkFaults,
    skill=st.sampled_from([0.3, 0.9]),
    delay=st.sampled_from([0.005, 0.05]),
    repeat=st.sampled_from([0.0, 0.3]),
    lose=st.sampled_from([0.03, 0.1, 0.3]),
    away=st.sampled_from([0.05, 1.0]),
    restart=st.sampled_from([0.0, 0.3, 1.0]),
    state=st.sampled_from([None, REQUEST]),
)


@pytest.mark.timeout(600)  # many take a while on a busy machine
@settings(max_examples=1_500, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    faults=CUTS,
    prompt=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    length=st.integers(1, 12),
    idle=st.sampled_from(["eager", "patient"]),
)
def test_an_answer_that_is_cut_anywhere_is_the_targets_own(seed, faults, prompt, length, idle):
    """However often, with whatever was written offline, and whether or not the server still has the session."""
    joined = Joined(terms(idle), faults, salt=seed, seed=seed)
    how = Settings(length)
    assert joined.run([(0, prompt, how)]) == [decode_alone(prompt, how, seed)]
    joined.check_state()


def test_cuts_do_cut_and_what_is_written_alone_is_judged():
    """Shows that the test above is not empty: streams break in most runs, and runs of many tokens come back with
    clients."""
    broken = judged = 0
    for seed in range(60):
        joined = Joined(terms(), LinkFaults(lose=0.1, away=1.0, skill=0.9), salt=seed, seed=seed)
        joined.run([(0, [1, 2, 3], Settings(12))])
        broken += joined.breaks > 0
        judged += joined.regrown
    assert broken > 30
    assert judged > 300
