"""Levels that are sent together: nothing is sent before its parent, and nothing is held for long."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.drafting.loop import DraftingLoop
from client.drafting.policies import LOCKSTEP, STREAM, Policy
from common.drafters.best_first import Expansion
from common.protocol.client_session import ClientSession
from common.protocol.messages import (
    Ack,
    Commit,
    Draw,
    Finished,
    FinishReason,
    FromClient,
    Grow,
    Opened,
    Settings,
    State,
)
from common.protocol.sampling import Sampling
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal
from tests.client.drafting.test_loop import GUESS, PROMPT, begun, state
from tests.client.fakes import LIMITS, REQUEST, SESSION
from tests.common.protocol.test_tree import paths

VOCABULARY = 4


def together(levels: int, **how) -> DraftingLoop:
    loop = begun(replace(STREAM, levels_together=levels, first_levels_together=levels), **how)
    loop.received(Opened(SESSION))
    return loop


def grown(sent: list[FromClient]) -> list[list[int]]:
    """The tokens of each Grow."""
    return [[node.token for node in message.nodes] for message in sent if isinstance(message, Grow)]


def below(parent: int, token: int) -> list[Proposal]:
    return [Proposal(parent, token, -0.5)]


def test_levels_wait_for_each_other_and_leave_in_one_grow():
    loop = together(3)
    assert loop.drafted(loop.begin_step(), [GUESS]) == []
    assert loop.drafted(loop.begin_step(), below(1, 8)) == []
    (grow,) = loop.drafted(loop.begin_step(), below(2, 9))
    assert [(node.id, node.parent, node.token) for node in grow.nodes] == [(1, 0, 7), (2, 1, 8), (3, 2, 9)]
    assert loop.drafted(loop.begin_step(), below(3, 5)) == []


def test_what_is_held_leaves_when_the_drafter_rests():
    loop = together(3)
    loop.drafted(loop.begin_step(), [GUESS])
    assert grown(loop.drafted(loop.begin_step(), []))[0] == [7]
    assert loop.begin_step() is None


def test_what_is_held_leaves_when_the_frontier_moves_on():
    """Before the level that knows the commit, and not with it: each Grow names the frontier that it was made for."""
    loop = together(3)
    loop.drafted(loop.begin_step(), [GUESS])
    loop.received(Commit(0, 3, (7,)))
    (overtaken,) = loop.drafted(loop.begin_step(), below(0, 8))
    assert (overtaken.frontier, [node.token for node in overtaken.nodes]) == (3, [7])
    assert grown(loop.drafted(loop.begin_step(), []))[0] == [8]


def test_what_is_held_leaves_ahead_of_a_newer_level_that_is_not_held():
    """The server takes the ids of a session in order only: what came behind a newer one would be lost."""
    loop = begun(replace(STREAM, levels_together=1, first_levels_together=2))
    loop.received(Opened(SESSION))
    assert loop.drafted(loop.begin_step(), [GUESS]) == []
    loop.received(Commit(0, 3, (7,)))
    sent = loop.drafted(loop.begin_step(), below(0, 8))
    assert grown(sent) == [[7], [8]]
    ids = [node.id for message in sent for node in message.nodes]
    assert ids == sorted(ids)


def test_what_is_held_leaves_ahead_of_an_acknowledgement():
    """The server forgets what lies below an acknowledged frontier, and held nodes may hang there."""
    loop = together(3)
    loop.drafted(loop.begin_step(), [GUESS])
    loop.begin_step()
    _, sent = loop.received(Commit(0, 3, (7, *range(20, 36))))
    assert [type(message) for message in sent] == [Grow, Ack]
    assert grown(sent) == [[7]]


def test_what_is_held_leaves_ahead_of_the_acknowledgement_of_a_step_that_was_in_vain():
    loop = together(3)
    loop.drafted(loop.begin_step(), [GUESS])
    step = loop.begin_step()
    assert loop.received(Commit(0, 3, (7, 8))) == ((7, 8), [])
    sent = loop.drafted(step, [])
    assert [type(message) for message in sent] == [Grow, Ack]
    assert grown(sent) == [[7]]


DRAW = Draw((7, 8), (3, 1))


def drawing(policy: Policy, idle: str = "") -> DraftingLoop:
    """An answer that is sampled by groups, ready to draft its first."""
    loop = DraftingLoop(ClientSession(SESSION, LIMITS), policy, has_drafter=True)
    loop.begin_turn(PROMPT, Settings(20, "speculative", idle=idle, sampling=Sampling(1.0)))
    loop.received(Opened(SESSION))
    if policy.round_levels is not None:
        loop.drafted(loop.begin_step(), [])
        loop.received(Commit(0, len(PROMPT), (5,)))
    return loop


def one_group(loop: DraftingLoop, parent: int) -> list[FromClient]:
    return loop.drafted(loop.begin_step(), [Proposal(parent, 7, -0.5, DRAW), Proposal(parent, 8, -1.5, DRAW)])


def test_groups_that_were_drawn_leave_at_once():
    """What is drafted behind a group depends on what was drawn for it, and must not decide when the group is sent."""
    loop = drawing(STREAM)
    for level in range(8):
        assert grown(one_group(loop, 2 * level)) == [[7, 8]]


@pytest.mark.parametrize(
    ("policy", "idle", "draws_once"),
    [(STREAM, "", True), (LOCKSTEP, "eager", True), (LOCKSTEP, LOCKSTEP.idle, False)],
)
def test_nothing_is_drawn_behind_a_group_in_the_same_step_where_it_leaves_at_once(policy, idle, draws_once):
    """Or the group would leave later, by a time that depends on what was drawn."""
    assert drawing(policy, idle).begin_step().bounds(Expansion()).draws_once == draws_once
    assert not together(3).begin_step().bounds(Expansion()).draws_once


def test_groups_of_rounds_leave_at_once_where_the_server_does_not_wait_for_rounds():
    loop = drawing(LOCKSTEP, "eager")
    for level in range(LOCKSTEP.round_levels):
        assert grown(one_group(loop, 2 * level)) == [[7, 8]]
    assert loop.begin_step() is None


def test_groups_of_rounds_leave_together_where_the_server_waits_for_them():
    loop = drawing(LOCKSTEP, LOCKSTEP.idle)
    sent = [grown(one_group(loop, 2 * level)) for level in range(LOCKSTEP.round_levels)]
    assert sent == [*[[]] * (LOCKSTEP.round_levels - 1), [[7, 8] * LOCKSTEP.round_levels]]


def test_a_tree_that_is_sent_again_is_a_whole_round():
    """If a group was drawn behind it, the delay would depend on what was drawn."""
    loop = drawing(LOCKSTEP, LOCKSTEP.idle)
    one_group(loop, 0)
    loop.session.lost()
    assert grown(loop.reopen()) == [[7, 8]]
    loop.received(Opened(SESSION))
    assert loop.begin_step() is None
    loop.received(Commit(0, len(PROMPT) + 1, (7,)))
    assert loop.begin_step() is not None


def test_what_is_held_leaves_when_the_drafter_retires():
    loop = together(3)
    loop.drafted(loop.begin_step(), [GUESS])
    loop.begin_step()
    assert grown(loop.retire()) == [[7], []]


def test_what_one_turn_held_is_not_sent_in_the_next():
    loop = together(3)
    loop.drafted(loop.begin_step(), [GUESS])
    loop.received(Finished(0, 3, FinishReason.CANCELLED))
    loop.begin_turn((*PROMPT, 2), Settings(20))
    sent = loop.drafted(loop.begin_step(), below(0, 8))
    sent += loop.drafted(loop.begin_step(), [])
    assert [(grow.turn, [node.token for node in grow.nodes]) for grow in sent if grow.nodes] == [(1, [8])]


class Schedule:
    """A drafting loop and a server's tree, with messages between them delayed at random."""

    def __init__(self, seed: int, levels: int):
        self.random = random.Random(seed)
        self.levels = levels
        self.loop = DraftingLoop(
            ClientSession(SESSION, LIMITS, REQUEST),
            replace(STREAM, levels_together=levels, first_levels_together=levels),
            has_drafter=True,
        )
        self.loop.begin_turn(PROMPT, Settings(300))
        self.loop.received(Opened(SESSION))
        self.server = TokenTree(PROMPT)
        self.up: list[FromClient] = []
        self.down: list[Commit | State] = []
        self.step = None
        self.sent: set[int] = set()
        self.drafted_at: dict[int, tuple[int, int]] = {}  # by node: its level's number, and the frontier then
        self.count = 0

    def send(self, messages: list[FromClient]) -> None:
        for message in messages:
            if isinstance(message, Grow):
                for node in message.nodes:
                    assert node.parent == 0 or node.parent in self.sent, "a node left before its parent"
                    self.sent.add(node.id)
            self.up.append(message)

    @property
    def unsent(self) -> list[int]:
        return [node.id for node in self.loop.session.tree.nodes() if node.id not in self.sent]

    def begin(self) -> None:
        self.step = self.step or self.loop.begin_step()

    def draft(self) -> None:
        """The level may belong to an old view, and be empty."""
        if self.step is None:
            return
        tree, before = self.loop.session.tree, self.loop.session.tree.last_id
        parents, level = [0, *(node.id for node in self.step.view.nodes)], []
        for index in range(1, self.random.randint(1, 4)):
            level.append(Proposal(self.random.choice(parents), self.random.randrange(VOCABULARY), -0.5))
            parents.append(-index)
        fresh_view = len(self.step.view.tokens) == tree.frontier
        self.send(self.loop.drafted(self.step, level))
        self.step, self.count = None, self.count + 1
        self.drafted_at |= dict.fromkeys(range(before + 1, tree.last_id + 1), (self.count, tree.frontier))
        if not level and fresh_view:
            assert self.unsent == [], "something is held while the drafter rests"

    def hear(self) -> None:
        if self.down:
            self.send(self.loop.received(self.down.pop(0))[1])

    def serve(self) -> None:
        if self.up:
            message = self.up.pop(0)
            if isinstance(message, Grow):
                self.server.grow(message.frontier, message.nodes)
            if isinstance(message, Grow | Ack):
                self.server.forget(message.frontier)

    def commit(self) -> None:
        if self.server.frontier > 300:
            return
        start, at, tokens = self.server.frontier, self.server.root, []
        while self.random.random() < 0.6 and at.children:
            tokens.append(self.random.choice(list(at.children)))
            at = at.children[tokens[-1]]
        tokens.append(self.random.randrange(VOCABULARY))
        self.server.commit(tokens)
        self.down.append(Commit(0, start, tuple(tokens)))

    def feed(self) -> None:
        """Draft state wakes a drafter that has nothing to do."""
        self.down.append(state(0, 3))

    def check(self) -> None:
        held = {self.drafted_at[id_] for id_ in self.unsent}
        assert len(held) < self.levels, "more levels are held than leave together"
        assert len({frontier for _, frontier in held}) <= 1, "a level is held that a later frontier has overtaken"

    def settle(self) -> None:
        """Everything arrives, and the drafter has nothing more to propose."""
        while self.down:
            self.hear()
        self.begin()
        if self.step is not None:
            self.send(self.loop.drafted(self.step, []))
        self.begin()
        if self.step is not None:
            self.send(self.loop.drafted(self.step, []))
        while self.up:
            self.serve()


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**31), levels=st.integers(1, 4), retires=st.booleans())
def test_nothing_leaves_before_its_parent_and_in_the_end_both_hold_one_tree(seed, levels, retires):
    run = Schedule(seed, levels)
    moves = [run.begin, run.draft, run.begin, run.draft, run.hear, run.serve, run.commit, run.feed]
    for _ in range(run.random.randint(1, 120)):
        run.random.choice(moves)()
        run.check()
    if retires:
        run.send(run.loop.retire())
        assert run.unsent == [], "something is held though the drafter is gone"
    run.settle()
    assert run.loop.session.tree.tokens == run.server.tokens
    assert paths(run.loop.session.tree) == paths(run.server)


@pytest.mark.parametrize("levels", [1, 2, 3, 7])
def test_a_steady_drafter_sends_a_grow_for_so_many_levels(levels):
    loop = together(levels, longest=300)
    sent = []
    for depth in range(4 * levels):
        sent += loop.drafted(loop.begin_step(), below(depth, 5))
    assert [len(tokens) for tokens in grown(sent)] == [levels] * 4
