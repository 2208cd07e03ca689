"""Exactness: whatever is drafted and whatever the link does, the answer is the target's own."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import Settings
from tests.common.protocol.fakes import REQUEST, decode_alone, terms
from tests.common.protocol.joined import Joined, LinkFaults

SEEDS = st.integers(0, 2**31)
FAULTS = st.builds(
    LinkFaults,
    skill=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    delay=st.sampled_from([0.001, 0.05, 0.3]),
    repeat=st.sampled_from([0.0, 0.3]),
    lose=st.sampled_from([0.0, 0.02]),
    restart=st.sampled_from([0.0, 0.5]),
    silent=st.sampled_from([0.0, 0.5, 1.0]),
    state=st.sampled_from([None, REQUEST]),
)
STOP = st.sampled_from([(), ("ab",), ("cad", "ee")])
ANSWER = st.builds(Settings, max_new_tokens=st.integers(1, 40), stop=STOP)
TOKENS = st.lists(st.integers(1, 5), min_size=1, max_size=12)
IDLE = st.sampled_from(["eager", "patient"])
CONTEXTS = st.sampled_from([16, 30, 256])  # the first two are filled by one turn
TURNS = st.lists(st.tuples(st.integers(-20, 0), TOKENS, ANSWER), min_size=1, max_size=3)


@settings(max_examples=600, deadline=None)
@given(
    seed=SEEDS,
    faults=FAULTS,
    turns=TURNS,
    idle=st.sampled_from(["eager", "patient"]),
    budget=st.integers(1, 40),
    context=CONTEXTS,
)
def test_every_turn_ends_with_the_targets_own_answer(seed, faults, turns, idle, budget, context):
    prompts_length = sum(len(tokens) for _, tokens, _ in turns)
    turns = turns if context > prompts_length + 120 else turns[:1]
    joined = Joined(terms(idle, context=context), faults, salt=seed, seed=seed, budget=budget)
    sequence: list[int] = []
    prompts = []
    for (back, tokens, how), answer in zip(turns, joined.run(turns), strict=True):
        prompts = [*sequence[: max(0, len(sequence) + back)], *tokens] if sequence else tokens
        assert answer == decode_alone(prompts, how, seed, context)
        sequence = [*prompts, *answer]
    joined.check_state()


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, turns=TURNS)
def test_a_cancelled_answer_is_a_prefix_of_the_targets_own(seed, turns):
    faults = LinkFaults(cancel=0.1, repeat=0.2, lose=0.02, restart=0.5, state=REQUEST)
    joined = Joined(terms(), faults, salt=seed, seed=seed)
    sequence: list[int] = []
    for turn, ((back, tokens, how), answer) in enumerate(zip(turns, joined.run(turns), strict=True)):
        prompt = [*sequence[: max(0, len(sequence) + back)], *tokens] if sequence else tokens
        truth = decode_alone(prompt, how, seed)
        assert answer == (truth[: len(answer)] if turn in joined.cancelled else truth)
        sequence = [*prompt, *answer]
    joined.check_state()


@settings(max_examples=300, deadline=None)
@given(
    seed=SEEDS,
    faults=FAULTS,
    turns=TURNS,
    idle=st.sampled_from(["assist", "auto", "colocated"]),
    budget=st.integers(1, 40),
    level=st.sampled_from([0.001, 0.02, 0.1]),
    max_server_drafted_nodes=st.sampled_from([8, 64]),
)
def test_with_the_servers_own_nodes_every_turn_ends_with_the_targets_own_answer(
    seed, faults, turns, idle, budget, level, max_server_drafted_nodes
):
    """No honest client is refused, however few nodes the server takes and however many it drafts itself."""
    offered = terms(idle, server_drafts=True, max_nodes=12, max_server_drafted_nodes=max_server_drafted_nodes)
    joined = Joined(offered, replace(faults, level=level), salt=seed, seed=seed, budget=budget)
    sequence: list[int] = []
    for (back, tokens, how), answer in zip(turns, joined.run(turns), strict=True):
        prompt = [*sequence[: max(0, len(sequence) + back)], *tokens] if sequence else tokens
        assert answer == decode_alone(prompt, how, seed)
        sequence = [*prompt, *answer]
    joined.check_state()


def test_a_full_tree_of_the_servers_own_leaves_the_client_all_its_nodes():
    """Shows that the limits of the test above are reached: a tree holds more nodes than a client may add."""
    fullest = 0

    class Watched(Joined):
        def _server_receives(self, frame):
            nonlocal fullest
            super()._server_receives(frame)
            fullest = max(fullest, len(self.server.tree))

    for seed in range(20):
        offered = terms("assist", server_drafts=True, max_nodes=12, max_server_drafted_nodes=12)
        faults = LinkFaults(skill=0.2, delay=0.01, level=0.001)
        Watched(offered, faults, salt=seed, seed=seed).run([(0, [1, 2, 3], Settings(40))])
    assert 12 < fullest <= 12 + 12


def test_a_client_counts_each_pass_also_where_commits_were_lost():
    """A client that sends nothing gets one token of each pass."""
    breaks = 0
    for seed in range(20):
        faults = LinkFaults(delay=0.3, lose=0.05, silent=1.0)
        joined = Joined(terms("eager"), faults, salt=seed, seed=seed)
        (answer,) = joined.run([(0, [1, 2, 3], Settings(40))])
        assert joined.client.passes == len(answer)
        breaks += joined.breaks
    assert breaks > 0


def passes_per_token(idle: str, skill: float, silent: float = 0.0) -> float:
    tokens = passes = 0
    for seed in range(40):
        faults = LinkFaults(skill=skill, delay=0.01, silent=silent, level=0.005)
        joined = Joined(terms(idle, server_drafts=True), faults, salt=seed, seed=seed)
        tokens += len(joined.run([(0, [1, 2, 3], Settings(40))])[0])
        passes += joined.passes
    return passes / tokens


@pytest.mark.parametrize("idle", ["eager", "patient"])
def test_wrong_drafts_cost_no_pass(idle):
    assert passes_per_token(idle, skill=0.0) <= 1.0


def test_right_drafts_save_passes_and_patience_saves_more():
    eager, patient = passes_per_token("eager", skill=1.0), passes_per_token("patient", skill=1.0)
    assert patient < eager < 0.85


@pytest.mark.parametrize("idle", ["assist", "auto", "colocated"])
def test_right_drafts_of_the_server_save_passes_where_the_client_is_silent(idle):
    assert passes_per_token(idle, skill=1.0, silent=1.0) < 0.85
    assert passes_per_token("eager", skill=1.0, silent=1.0) == 1.0
