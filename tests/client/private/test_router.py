"""Conversations that become private, with a server in memory: what is sent, what is drafted from, how they end."""

import asyncio

import pytest

from client.answer import Answer
from client.conversation import Conversation
from client.drafting.loop import DraftingLoop
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from client.link.offline import OfflineOptions
from client.private.draft_only import AnswerBounds
from client.private.router import PrivacyRouter
from client.private.spans import SplitPrompt
from common.protocol.client_session import ClientSession
from common.protocol.errors import MisuseError
from common.protocol.messages import Ack, Cancel, Extend, Failed, FailureCode, Grow, Open, Settings, StateAck
from common.rpc.errors import LinkError
from tests.client.fakes import LIMITS, SESSION, ChainDrafter, FakeStream, StatefulDrafter, decoded, state_of, target

SAFE, PRIVATE = (3, 1, 4, 1, 5), (9, 2, 6)
PROMPT = SplitPrompt(SAFE, PRIVATE)
BOUNDS = AnswerBounds(LIMITS.context, frozenset({0}), lambda tokens: "")
ALONE = Settings(max_new_tokens=0)


def unseen(committed, provisional):
    """Ignores all events."""


def router(
    stream: FakeStream | None, drafter: ChainDrafter | None, policy: Policy = STREAM, dial=None, patience: float = 0.2
) -> PrivacyRouter:
    wanted = drafter.state if drafter is not None and policy.drafts else None
    loop = DraftingLoop(ClientSession(SESSION, LIMITS, wanted), policy, has_drafter=drafter is not None)
    talk = Conversation(
        stream, loop, drafter, "fake", tree=policy.tree, dial=dial, offline=OfflineOptions(wait_s=patience)
    )
    return PrivacyRouter(talk, BOUNDS)


async def ask(talk: PrivacyRouter, prompt: SplitPrompt = PROMPT, count: int = 12, watch=unseen) -> Answer:
    return await asyncio.wait_for(talk.answer(prompt, Settings(count), watch), 20)


def said(stream: FakeStream) -> list[object]:
    """The messages without acknowledgements and empty Grows."""
    return [each for each in stream.sent if not isinstance(each, Ack | StateAck) and each != Grow(0, len(SAFE), ())]


@pytest.mark.parametrize("policy", [STREAM, LOCKSTEP])
async def test_the_server_hears_the_safe_text_alone_and_the_draft_writes_the_answer(policy):
    stream, drafter = FakeStream(), StatefulDrafter(target)
    answer = await ask(router(stream, drafter, policy))
    (opened,) = said(stream)
    assert isinstance(opened, Open)
    assert (opened.tokens, opened.prompt_length, opened.settings) == (SAFE, len(SAFE), ALONE)
    assert (answer.tokens, answer.provisional) == ((), decoded(PROMPT.tokens, 12))
    assert (answer.finish_reason, answer.private, answer.note, answer.failure) == ("length", True, "", "")
    assert (answer.stats.tokens, answer.stats.provisional_tokens, answer.stats.passes) == (0, 12, 0)
    assert answer.stats.bytes_up == stream.traffic.up > 0
    assert answer.stats.state_bytes == dict(stream.traffic.state)


async def test_it_is_drafted_from_the_state_of_exactly_the_safe_text():
    drafter = StatefulDrafter(target)
    arrived: list[int] = []
    draft, drafter.draft = drafter.draft, lambda view, states=(): arrived.append(len(states)) or draft(view, states)
    await ask(router(FakeStream(), drafter))
    assert drafter.held == {at: state_of(SAFE[: at + 1]) for at in range(len(SAFE))}
    assert arrived[0] > 0
    assert set(arrived[1:]) == {0}, "it comes once"
    first = drafter.views[0]
    assert (first.tokens, first.alone, first.provisional) == (PROMPT.tokens, True, len(PRIVATE))


async def test_a_drafter_that_needs_no_state_says_nothing_to_anybody():
    stream = FakeStream()
    answer = await ask(router(stream, ChainDrafter(target)))
    assert stream.sent == []
    assert answer.provisional == decoded(PROMPT.tokens, 12)


async def test_without_safe_text_nothing_is_said_to_anybody():
    stream = FakeStream()
    answer = await ask(router(stream, StatefulDrafter(target)), SplitPrompt((), PRIVATE))
    assert stream.sent == []
    assert (answer.provisional, answer.note) == (decoded(PRIVATE, 12), "")


async def test_later_turns_stay_here_whatever_is_in_them():
    stream, drafter = FakeStream(), StatefulDrafter(target)
    talk = router(stream, drafter)
    first = await ask(talk)
    spoken = len(stream.sent)
    second = await ask(talk, SplitPrompt((*PROMPT.tokens, *first.provisional, 7, 7)))
    assert len(stream.sent) == spoken
    assert second.private
    assert second.provisional == decoded((*PROMPT.tokens, *first.provisional, 7, 7), 12)
    assert second.stats.bytes_up == 0


async def test_earlier_turns_are_the_targets_and_their_state_is_kept():
    stream, drafter = FakeStream(), StatefulDrafter(target)
    talk = router(stream, drafter)
    first = await ask(talk, SplitPrompt(SAFE))
    assert (first.private, first.tokens) == (False, decoded(SAFE, 12))
    safe, sent_before = (*SAFE, *first.tokens, 8, 8), stream.traffic.up
    second = await ask(talk, SplitPrompt(safe, PRIVATE))
    assert second.stats.bytes_up == stream.traffic.up - sent_before > 0
    extended = [each for each in stream.sent if isinstance(each, Extend)]
    assert extended == [Extend(1, len(SAFE) + 12, (8, 8), ALONE)]
    assert second.provisional == decoded((*safe, *PRIVATE), 12)
    assert drafter.held == {at: state_of(safe[: at + 1]) for at in range(len(safe))}


async def test_without_its_server_the_draft_writes_without_state_and_says_so():
    drafter = StatefulDrafter(target)
    answer = await ask(router(None, drafter))
    assert answer.provisional == decoded(PROMPT.tokens, 12)
    assert drafter.held == {}
    assert "the draft model wrote without" in answer.note
    assert answer.finish_reason == "length"


async def test_a_server_that_stays_away_is_waited_for_no_longer_than_was_asked():
    async def dial():
        raise LinkError("nobody there")

    answer = await ask(router(None, StatefulDrafter(target), dial=dial))
    assert answer.provisional == decoded(PROMPT.tokens, 12)
    assert "out of reach" in answer.note
    assert 0.2 <= answer.stats.seconds < 5


class Unheeding(FakeStream):
    """A server that ends no turn, whatever it is told, and answers pings."""

    def __init__(self):
        super().__init__(pass_seconds=1000.0)

    def _take(self, message):
        if not isinstance(message, Cancel):
            super()._take(message)


@pytest.mark.parametrize(
    "server", [None, lambda: FakeStream(pass_seconds=1000.0), Unheeding], ids=["nobody", "too slow", "never ends"]
)
async def test_state_is_not_waited_for_without_end(monkeypatch, server):
    async def dial():
        await asyncio.Event().wait()

    monkeypatch.setattr("client.private.router._FETCH_TIMEOUT_S", 0.3)
    monkeypatch.setattr("client.private.router._CANCEL_TIMEOUT_S", 0.3)
    stream = server and server()
    answer = await ask(router(stream, StatefulDrafter(target), dial=dial, patience=1000.0))
    assert answer.provisional == decoded(PROMPT.tokens, 12)
    assert "the draft model wrote without" in answer.note
    assert "too late" in answer.note


async def test_a_stream_that_breaks_is_made_anew_until_all_state_has_come():
    first, second = FakeStream(breaks_after=1), FakeStream()

    async def dial():
        return second

    drafter = StatefulDrafter(target)
    prompt = SplitPrompt(tuple(index % 40 for index in range(200)), PRIVATE)
    answer = await ask(router(first, drafter, dial=dial), prompt)
    (opened,) = [each for each in second.sent if isinstance(each, Open)]
    assert (opened.tokens, opened.settings) == (prompt.safe, ALONE)
    assert set(drafter.held) == set(range(200))
    assert drafter.mistaken == []
    assert (answer.provisional, answer.note) == (decoded(prompt.tokens, 12), "")


async def test_once_it_is_private_its_link_is_of_no_more_use():
    stream, dialled = FakeStream(), []

    async def dial():
        dialled.append(1)
        raise LinkError("nobody there")

    talk = router(stream, StatefulDrafter(target), dial=dial)
    await ask(talk)
    spoken = len(stream.sent)
    with pytest.raises(LinkError):
        await talk._conversation.answer(PROMPT.tokens, Settings(12), unseen)
    assert (len(stream.sent), dialled) == (spoken, [])


async def test_nothing_drafts_nothing_is_said():
    stream = FakeStream()
    with pytest.raises(MisuseError, match="by a draft model alone"):
        await ask(router(stream, None, CLOUD))
    assert stream.sent == []


@pytest.mark.parametrize("prompt", [SplitPrompt(SAFE, (1,) * 395), SplitPrompt((1,) * 400)], ids=["private", "open"])
async def test_a_prompt_without_room_for_an_answer_is_misuse_and_is_not_sent(prompt):
    stream = FakeStream()
    with pytest.raises(MisuseError, match="400 tokens, but this model's maximum context length is 400 tokens"):
        await ask(router(stream, StatefulDrafter(target)), prompt)
    assert stream.sent == []


@pytest.mark.parametrize(("error", "says"), [(RuntimeError("no memory"), "no memory"), (KeyError(), "KeyError")])
async def test_a_drafter_that_fails_leaves_what_it_wrote(error, says):
    def fail(tokens):
        if len(tokens) == len(PROMPT.tokens) + 3:
            raise error
        return target(tokens)

    answer = await ask(router(FakeStream(), ChainDrafter(fail)))
    assert answer.provisional == decoded(PROMPT.tokens, 3)
    assert (answer.finish_reason, says in answer.failure) == ("error", True)


async def test_a_drafter_that_is_spent_ends_the_answer():
    answer = await ask(router(FakeStream(), ChainDrafter(target, depth=0)))
    assert (answer.provisional, answer.finish_reason, answer.failure) == ((), "spent", "")


async def test_an_end_token_ends_it():
    answer = await ask(router(FakeStream(), ChainDrafter(lambda tokens: int(len(tokens) < 12))))
    assert (answer.provisional, answer.finish_reason) == ((1, 1, 1, 1, 0), "stop")


async def test_it_can_be_stopped_while_it_is_written():
    talk = router(FakeStream(), StatefulDrafter(target))

    def watch(committed, provisional):
        if len(provisional) == 4:
            talk.cancel()

    answer = await ask(talk, watch=watch)
    assert (answer.provisional, answer.finish_reason) == (decoded(PROMPT.tokens, 4), "cancelled")
    assert (await ask(talk)).provisional == decoded(PROMPT.tokens, 12)


async def test_it_can_be_stopped_while_state_comes():
    stream = FakeStream(pass_seconds=30)
    talk = router(stream, StatefulDrafter(target))
    asking = asyncio.ensure_future(ask(talk))
    while not stream.sent:
        await asyncio.sleep(0.01)
    talk.cancel()
    answer = await asking
    assert (answer.provisional, answer.finish_reason) == ((), "cancelled")


async def test_what_is_written_is_watched_as_provisional():
    seen = []
    await ask(router(FakeStream(), StatefulDrafter(target)), watch=lambda *both: seen.append(both))
    assert seen == [((), decoded(PROMPT.tokens, count)) for count in range(1, 13)]


async def test_what_the_watch_raises_is_raised():
    def blind(committed, provisional):
        raise ValueError("blind")

    with pytest.raises(ValueError, match="blind"):
        await ask(router(FakeStream(), StatefulDrafter(target)), watch=blind)


async def test_a_server_that_refuses_is_told_of_and_done_without():
    class Refusing(FakeStream):
        def _take(self, message):
            self._deliver([Failed(FailureCode.OVERLOADED, "no room today")])

    answer = await ask(router(Refusing(), StatefulDrafter(target)))
    assert answer.provisional == decoded(PROMPT.tokens, 12)
    assert answer.note.endswith("not private: no room today")


async def test_a_draft_that_goes_round_in_circles_is_stopped_and_the_answer_says_so():
    circling = ChainDrafter(lambda tokens: 1 + len(tokens) % 3)
    answer = await ask(router(FakeStream(), circling), count=200)
    assert len(answer.provisional) < 50
    assert (answer.finish_reason, answer.note) == ("repetition", "the draft began to repeat itself and was stopped")
