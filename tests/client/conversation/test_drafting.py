"""The drafting loop against a server in memory: every drafter, every policy, the target's own answer."""

import asyncio
from dataclasses import replace

import pytest

from client.answer import Answer
from client.conversation import Conversation
from client.drafting.controller import FixedTree
from client.drafting.loop import DraftingLoop
from client.drafting.policies import CLOUD, LOCKSTEP, POLICIES, PUBLISHED_TREE, STREAM, Policy
from common.drafters.best_first import Expansion
from common.pacing import PacedThread, WorkerFactory
from common.protocol.client_session import ClientSession
from common.protocol.messages import Ack, Commit, Grow, Settings, State
from common.protocol.views import Proposal
from common.rpc.errors import LinkError
from netem.virtual.clock import VirtualWorker
from tests.client.conversation.conversations import COUNT, LEVEL_S, PROMPT, now
from tests.client.fakes import (
    LIMITS,
    SESSION,
    ChainDrafter,
    FakeStream,
    StatefulDrafter,
    decoded,
    down_bytes,
    sometimes,
    target,
    up_bytes,
    wrong,
)
from tests.hand_set_time import HandSetTime


def unseen(committed, provisional):
    """Ignores all events."""


def conversation(
    stream: FakeStream,
    policy: Policy = STREAM,
    drafter: ChainDrafter | None = None,
    pace: float = LEVEL_S,
    make_worker: WorkerFactory = VirtualWorker,
) -> Conversation:
    wanted = drafter.state if drafter is not None and policy.drafts else None
    loop = DraftingLoop(ClientSession(SESSION, LIMITS, wanted), policy, has_drafter=drafter is not None)
    return Conversation(stream, loop, drafter, "fake", pace, policy.tree, now, make_worker)


async def ask(
    stream: FakeStream, policy: Policy = STREAM, drafter: ChainDrafter | None = None, pace: float = LEVEL_S
) -> Answer:
    talk = conversation(stream, policy, drafter, pace)
    try:
        return await asyncio.wait_for(talk.answer(PROMPT, Settings(COUNT, idle=policy.idle), unseen), 20)
    finally:
        talk.close()
        stream.close()


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("propose", [target, wrong, sometimes, None])
async def test_the_answer_is_the_targets_own(policy, propose):
    drafter = None if propose is None else ChainDrafter(propose)
    answer = await ask(FakeStream(), policy, drafter)
    assert answer.tokens == decoded(PROMPT, 40)
    assert answer.finish_reason == "length"
    assert answer.stats.tokens == 40


async def test_drafting_goes_on_while_answers_are_awaited():
    stream = FakeStream(pass_seconds=0.03)
    answer = await ask(stream, STREAM, ChainDrafter(target, depth=12))
    assert answer.stats.accept_length > 3
    assert max(len(grow.nodes) for grow in stream.grows) == STREAM.first_levels_together


async def test_a_right_drafter_is_never_retracted_and_a_wrong_one_always():
    right = await ask(FakeStream(pass_seconds=0.01), STREAM, ChainDrafter(target))
    mistaken = await ask(FakeStream(pass_seconds=0.01), STREAM, ChainDrafter(wrong))
    assert 0 < right.stats.provisional_tokens <= 40
    assert right.stats.retracted_tokens == 0
    assert mistaken.stats.retracted_tokens == mistaken.stats.provisional_tokens > 0


async def test_lockstep_sends_one_tree_a_round():
    stream = FakeStream()
    answer = await ask(stream, LOCKSTEP, ChainDrafter(target, depth=20))
    trees = [grow for grow in stream.grows if grow.nodes]
    assert len({grow.frontier for grow in trees}) == len(trees)
    assert {len(grow.nodes) for grow in trees[:-1]} == {LOCKSTEP.round_levels}
    assert answer.stats.accept_length > LOCKSTEP.round_levels / 2


async def test_without_drafting_every_commit_is_acknowledged():
    stream = FakeStream()
    answer = await ask(stream, CLOUD, ChainDrafter(target))
    assert stream.grows == []
    assert sum(isinstance(message, Ack) for message in stream.sent) == answer.stats.passes
    assert answer.stats.accept_length == 1


@pytest.mark.parametrize("propose", [wrong, target])
async def test_a_slow_drafter_never_stalls_the_server(propose):
    alone = await ask(FakeStream(), STREAM)
    answer = await ask(FakeStream(), STREAM, ChainDrafter(propose), pace=1.0)
    assert answer.stats.seconds < alone.stats.seconds + 0.5


async def test_the_answer_is_over_when_it_is_finished_whatever_is_still_drafted():
    stream = FakeStream()
    talk = conversation(stream, STREAM, ChainDrafter(target), pace=1.0)
    tokens = PROMPT
    for _ in range(2):
        began = now()
        answer = await talk.answer(tokens, Settings(10), unseen)
        assert answer.stats.seconds <= now() - began < 0.8
        tokens = (*tokens, *answer.tokens)
    assert tokens == (*PROMPT, *decoded(PROMPT, 20))
    talk.close()
    stream.close()


async def test_a_drafter_that_is_spent_says_so_once_a_frontier():
    stream = FakeStream(pass_seconds=0.02)
    await ask(stream, STREAM, ChainDrafter(wrong, depth=2))
    spent = [grow.frontier for grow in stream.grows if not grow.nodes]
    assert spent
    assert len(set(spent)) == len(spent)


@pytest.mark.parametrize(("error", "says"), [(RuntimeError("no memory"), "no memory"), (KeyError(), "KeyError")])
async def test_a_drafter_that_fails_leaves_the_answer_whole(error, says):
    def fail(tokens):
        raise error

    answer = await ask(FakeStream(), STREAM, ChainDrafter(fail))
    assert answer.tokens == decoded(PROMPT, 40)
    assert says in answer.note


@pytest.mark.parametrize("parent", [1000, -3])
async def test_a_bad_proposal_retires_the_drafter(parent):
    class Confused(ChainDrafter):
        def draft(self, view, states=()):
            return [Proposal(parent, 7, -0.1)]

    answer = await ask(FakeStream(), STREAM, Confused(target))
    assert answer.tokens == decoded(PROMPT, 40)
    assert str(parent) in answer.note


@pytest.mark.parametrize("committed", [True, False])
async def test_what_the_watch_raises_is_raised(committed):
    def blind(tokens, provisional):
        if bool(tokens) is committed:
            raise UnicodeError("cannot be shown")

    stream = FakeStream(pass_seconds=0.03)
    talk = conversation(stream, STREAM, ChainDrafter(target))
    with pytest.raises(UnicodeError, match="cannot be shown"):
        await asyncio.wait_for(talk.answer(PROMPT, Settings(300), blind), 5)
    talk.close()
    stream.close()


class SlowDrafter(ChainDrafter):
    """Each level takes some seconds of a time that is set by hand."""

    def __init__(self, time: HandSetTime, seconds: float):
        super().__init__(target, depth=50)
        self._time, self._seconds = time, seconds

    def draft(self, view, states=()):
        self._time.sleep(self._seconds)
        return super().draft(view)


async def test_levels_that_took_longer_than_the_pace_are_counted(hand_set_time):
    for pace, seconds, overrun in ((0.01, 0.0, False), (0.01, 0.03, True), (0.0, 0.01, False)):
        stream, drafter = FakeStream(pass_seconds=0.01), SlowDrafter(hand_set_time, seconds)
        talk = conversation(stream, STREAM, drafter, pace, PacedThread)
        answer = await talk.answer(PROMPT, Settings(60), unseen)
        again = await talk.answer((*PROMPT, *answer.tokens), Settings(60), unseen)
        talk.close()
        stream.close()
        assert 0 <= len(drafter.views) - answer.levels - again.levels <= 2
        assert min(answer.levels, again.levels) > 0
        assert (answer.overrun_levels > answer.levels / 2) is overrun


async def test_pace_is_the_least_time_of_a_level():
    stream = FakeStream(pass_seconds=0.01)
    drafter = ChainDrafter(target, depth=50)
    talk = conversation(stream, STREAM, drafter, pace=0.02)
    answer = await talk.answer(PROMPT, Settings(30), unseen)
    talk.close()
    stream.close()
    assert len(drafter.views) <= answer.stats.seconds / 0.02 + 1


async def test_several_turns_share_the_session():
    stream = FakeStream()
    drafter = ChainDrafter(sometimes)
    talk = conversation(stream, STREAM, drafter)
    tokens = PROMPT
    for _ in range(3):
        answer = await talk.answer(tokens, Settings(15), unseen)
        assert answer.tokens == decoded(tokens, 15)
        tokens = (*tokens, *answer.tokens[:-3], 9, 9, 9)
    talk.close()
    stream.close()
    assert not any(isinstance(message, Grow) and message.turn > 2 for message in stream.sent)


@pytest.mark.parametrize("policy", [STREAM, LOCKSTEP], ids=["stream", "lockstep"])
async def test_draft_state_reaches_the_drafter_through_all_turns(policy):
    stream = FakeStream(pass_seconds=0.005)
    drafter = StatefulDrafter(sometimes, depth=8)
    talk = conversation(stream, policy, drafter)
    tokens = PROMPT
    for _ in range(3):
        answer = await talk.answer(tokens, Settings(25, idle=policy.idle), unseen)
        assert answer.tokens == decoded(tokens, 25)
        assert drafter.mistaken == []
        assert set(drafter.held) >= set(range(len(tokens)))
        tokens = (*tokens, *answer.tokens[:-6], 9, 9, 9)
    talk.close()
    stream.close()


async def test_corrupt_draft_state_retires_the_drafter_and_the_person_is_told():
    stream = FakeStream(pass_seconds=0.005, corrupt=True)
    answer = await ask(stream, STREAM, StatefulDrafter(target))
    assert answer.tokens == decoded(PROMPT, 40)
    assert answer.note.startswith("the drafter failed (a state payload is corrupt")


async def test_cancelling_ends_the_answer_and_keeps_the_session():
    stream = FakeStream(pass_seconds=0.01)
    talk = conversation(stream, STREAM, ChainDrafter(sometimes))
    asking = asyncio.create_task(talk.answer(PROMPT, Settings(300), unseen))
    await asyncio.sleep(0.15)
    talk.cancel()
    answer = await asyncio.wait_for(asking, 5)
    assert answer.finish_reason == "cancelled"
    assert answer.tokens == decoded(PROMPT, len(answer.tokens))
    following = await talk.answer((*PROMPT, *answer.tokens, 2), Settings(5), unseen)
    talk.close()
    stream.close()
    assert following.tokens == decoded((*PROMPT, *answer.tokens, 2), 5)


async def test_a_stream_that_breaks_keeps_what_was_committed():
    answer = await ask(FakeStream(breaks_after=6), STREAM, ChainDrafter(sometimes))
    assert answer.finish_reason == "error"
    assert "mid-answer" in answer.failure
    assert answer.tokens
    assert answer.tokens == decoded(PROMPT, len(answer.tokens))


async def test_a_stream_that_breaks_before_anything_came_is_an_error():
    stream = FakeStream(pass_seconds=5)
    stream._frames.put_nowait(LinkError("no server there"))
    with pytest.raises(LinkError, match="no server"):
        await ask(stream)


async def test_bytes_are_those_of_the_answers_own_frames():
    stream = FakeStream()
    talk = conversation(stream, STREAM, ChainDrafter(target))
    first = await talk.answer(PROMPT, Settings(15), unseen)
    sent, received = list(stream.sent), list(stream.received)
    second = await talk.answer((*PROMPT, *first.tokens, 9), Settings(15), unseen)
    talk.close()
    stream.close()
    assert (first.stats.bytes_up, first.stats.bytes_down) == (sum(map(up_bytes, sent)), sum(map(down_bytes, received)))
    assert second.stats.bytes_up == sum(map(up_bytes, stream.sent[len(sent) :]))
    assert second.stats.bytes_down == sum(map(down_bytes, stream.received[len(received) :]))


async def test_bytes_of_draft_state_are_counted_by_kind_and_answer():
    stream = FakeStream(pass_seconds=0.005)
    talk = conversation(stream, STREAM, StatefulDrafter(target))
    first = await talk.answer(PROMPT, Settings(15), unseen)
    received = list(stream.received)
    second = await talk.answer((*PROMPT, *first.tokens, 9), Settings(15), unseen)
    talk.close()
    stream.close()
    for stats, frames in ((first.stats, received), (second.stats, stream.received[len(received) :])):
        assert stats.state_bytes == {"lsa": sum(down_bytes(frame) for frame in frames if isinstance(frame, State))}
        assert 0 < stats.state_bytes["lsa"] < stats.bytes_down


class Steered(FixedTree):
    """Records what it is told, and widens the tree by a node with each level."""

    def __init__(self):
        super().__init__(Expansion(breadth=1))
        self.turns = 0
        self.levels = []
        self.ids = []
        self.commits = []

    def begin_turn(self):
        self.turns += 1

    def drafted(self, nodes, added, seconds, is_one_draw):
        self.levels.append((nodes, seconds))
        self.expansion = Expansion(breadth=self.expansion.breadth + 1)

    def sent(self, last_id, now):
        self.ids.append((last_id, now))

    def committed(self, tokens, carried, seen, now):
        self.commits.append((tokens, seen, now))


class Bounded(ChainDrafter):
    """Records the bounds within which it drafts."""

    def __init__(self):
        super().__init__(target, depth=12)
        self.bounds = []

    def draft(self, view, states=()):
        self.bounds.append(self.expansion)
        return super().draft(view, states)


async def test_who_steers_is_told_of_levels_grows_and_commits_and_obeyed_in_the_next_level(monkeypatch):
    steered, drafter, stream = Steered(), Bounded(), FakeStream(pass_seconds=0.02)
    monkeypatch.setattr("client.conversation.Controller", lambda: steered)
    answer = await ask(stream, STREAM, drafter, pace=0.002)
    assert steered.turns == 1
    # The first level also reads the prompt, and the last may be overtaken by the end of the answer.
    assert answer.levels - 1 == len(steered.levels) > 5
    assert all(seconds >= 0.002 for _, seconds in steered.levels)
    assert {nodes for nodes, _ in steered.levels} == {0, 1}, "a chain has one new node a level, or none"
    breadths = [bounds.breadth for bounds in drafter.bounds]
    assert breadths[:8] == [1, 1, 2, 3, 4, 5, 6, 7]
    assert [last for last, _ in steered.ids] == [grow.nodes[-1].id for grow in stream.grows if grow.nodes]
    assert sum(tokens for tokens, _, _ in steered.commits) == 40
    assert [seen for _, seen, _ in steered.commits] == [m.seen for m in stream.received if isinstance(m, Commit)]
    assert max(seen for _, seen, _ in steered.commits) in [last for last, _ in steered.ids]


async def test_rounds_are_drafted_within_the_published_tree_and_nobody_steers():
    drafter = Bounded()
    await ask(FakeStream(), LOCKSTEP, drafter)
    first, *rounds = drafter.bounds  # the first is a warm-up
    usual, last = [PUBLISHED_TREE] * (LOCKSTEP.round_levels - 1), replace(PUBLISHED_TREE, breadth=62)
    whole = len(rounds) // LOCKSTEP.round_levels * LOCKSTEP.round_levels
    assert first == PUBLISHED_TREE
    assert rounds[:whole] == [*usual, last] * (whole // LOCKSTEP.round_levels)
    assert whole > LOCKSTEP.round_levels
