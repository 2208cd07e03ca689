"""Answers whose stream breaks: continued offline, resumed, and in the end the target's own, or marked as unverified."""

import asyncio
from contextlib import suppress

import pytest

from client.answer import OFFLINE
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM
from client.errors import ServerRefusedError
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from common.drafters.lookup import LookupDrafter
from common.protocol.errors import MisuseError
from common.protocol.messages import Failed, FailureCode, Open, Opened, Settings
from common.rpc.errors import HandshakeError, LinkError
from tests.client.conversation.conversations import (
    COUNT,
    PROMPT,
    Refusing,
    Server,
    Shown,
    ask,
    conversation,
    now,
    until,
)
from tests.client.fakes import (
    LIMITS,
    SESSION,
    ChainDrafter,
    FakeStream,
    StatefulDrafter,
    decoded,
    sometimes,
    target,
    wrong,
)


@pytest.mark.parametrize("policy", [STREAM, LOCKSTEP, CLOUD], ids=["stream", "lockstep", "cloud"])
@pytest.mark.parametrize("breaks_after", [1, 3, 6])
@pytest.mark.parametrize("propose", [target, wrong, sometimes, None])
async def test_an_answer_that_was_cut_is_the_targets_own(policy, breaks_after, propose):
    drafter = None if propose is None else ChainDrafter(propose)
    server, shown = Server(back=0.2), Shown()
    talk = conversation(FakeStream(pass_seconds=0.005, breaks_after=breaks_after), server, drafter, policy)
    answer = await ask(talk, shown, idle=policy.idle)
    talk.close()
    assert answer.tokens == tuple(shown.final) == decoded(PROMPT, COUNT)
    assert (answer.finish_reason, answer.provisional, answer.failure) == ("length", (), "")
    assert answer.stats.reconnects == 1


async def test_it_is_cut_again_and_again():
    streams = iter([FakeStream(breaks_after=count) for count in (1, 2, 1, 3)])

    async def dial():
        return next(streams, None) or FakeStream()

    talk = conversation(FakeStream(breaks_after=2), dial, ChainDrafter(sometimes))
    answer = await ask(talk)
    talk.close()
    assert answer.tokens == decoded(PROMPT, COUNT)
    assert answer.stats.reconnects == 5


async def test_what_was_written_alone_is_judged_at_once():
    server, shown = Server(), Shown()

    async def back_once_all_is_written() -> FakeStream:
        if len(shown.final) + len(shown.provisional) < 60:
            raise LinkError("nobody is there")
        return await server()

    lost = FakeStream(pass_seconds=0.01, breaks_after=2)
    talk = conversation(lost, back_once_all_is_written, ChainDrafter(target, depth=400))
    answer = await ask(talk, shown, count=60)
    talk.close()
    assert answer.tokens == decoded(PROMPT, 60)
    assert server.streams[0].passes <= 3, "the whole run fits one pass"
    assert answer.stats.retracted_tokens == 0


async def test_a_round_trip_is_that_of_the_newest_stream():
    server = Server(back=0.4)
    talk = conversation(FakeStream(breaks_after=1), server, ChainDrafter(target))
    answer = await ask(talk)
    talk.close()
    assert answer.stats.rtt_ms < 250


async def test_who_never_comes_back_leaves_what_was_written_alone():
    shown = Shown()
    talk = conversation(
        FakeStream(pass_seconds=0.01, breaks_after=3),
        Server(back=1000),
        ChainDrafter(wrong, depth=400),
        offline=OfflineOptions(limit_tokens=12, wait_s=0.4),
    )
    began = now()
    answer = await ask(talk, shown)
    assert 0.4 < now() - began < 3.0
    assert answer.finish_reason == "offline"
    assert answer.tokens == tuple(shown.final) == decoded(PROMPT, len(answer.tokens))
    assert len(answer.tokens) >= 3
    assert len(answer.provisional) == 12
    assert answer.provisional == shown.provisional
    tokens = [*PROMPT, *answer.tokens]
    for token in answer.provisional:
        assert token == wrong(tokens)
        tokens.append(token)
    talk.close()


async def test_no_more_is_written_alone_than_the_answer_has_room_for():
    talk = conversation(None, Server(back=1000), ChainDrafter(target, depth=400), offline=OfflineOptions(256, 0.2))
    answer = await ask(talk, count=7)
    talk.close()
    assert answer.provisional == decoded(PROMPT, 7)
    assert (answer.tokens, answer.finish_reason) == ((), "offline")


@pytest.mark.parametrize("drafter", [None, LookupDrafter()], ids=["nobody", "lookup"])
async def test_patience_is_counted_from_the_last_word_however_often_the_server_is_tried(drafter):
    server = Server(back=1000)
    talk = conversation(None, server, drafter, offline=OfflineOptions(wait_s=1.5))
    began = now()
    answer = await ask(talk, tokens=tuple(range(1, 20)))
    talk.close()
    assert 1.5 <= now() - began < 3.0
    assert (answer.finish_reason, answer.provisional) == ("offline", ())
    assert server.attempts > 3


class Fleeting(FakeStream):
    """Confirms that the session exists, and breaks before anything else arrives."""

    def _take(self, message):
        if isinstance(message, Open):
            self._deliver([Opened(SESSION)])
            asyncio.get_running_loop().call_later(0.05, self._frames.put_nowait, LinkError("gone again"))


@pytest.mark.parametrize("drafter", [None, LookupDrafter(), ChainDrafter(target)], ids=["nobody", "lookup", "chain"])
async def test_short_contacts_that_bring_nothing_do_not_begin_the_patience_anew(drafter):
    contacts = 0

    async def dial():
        nonlocal contacts
        contacts += 1
        return Fleeting()

    talk = conversation(Fleeting(), dial, drafter, offline=OfflineOptions(limit_tokens=8, wait_s=0.6))
    told = []
    talk.on_wait = told.append
    answer = await ask(talk, tokens=tuple(range(1, 20)))
    talk.close()
    assert answer.finish_reason == "offline"
    assert contacts > 2
    assert len(told) == 1


class Silent(FakeStream):
    """Confirms that the session exists, and says nothing more for so many seconds."""

    def __init__(self, seconds: float):
        super().__init__()
        self._seconds = seconds
        self._closed = asyncio.Event()

    async def receive(self):
        frame = await super().receive()
        if not isinstance(frame, Opened):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), self._seconds)
                raise LinkError("given up")
            self._seconds = 0.0
        return frame

    def close(self):
        super().close()
        self._closed.set()


@pytest.mark.parametrize(("seconds", "told"), [(0.7, []), (1000.0, [4.0])], ids=["a moment", "for good"])
async def test_a_wait_is_told_once_a_link_that_worked_is_lost_and_not_while_it_is_suspect(seconds, told):
    talk, waits, states = conversation(Silent(seconds), Server(back=1000)), [], []
    talk.on_wait = waits.append
    await asyncio.wait_for(talk.answer(PROMPT, Settings(COUNT), Shown(), states.append), 20)
    talk.close()
    assert LinkState.SUSPECT in states
    assert [round(wait) for wait in waits] == told


async def test_a_contact_that_brings_tokens_begins_the_patience_anew():
    """Each gap is longer than half of the total patience."""
    streams: list[FakeStream] = []

    async def dial():
        await asyncio.sleep(0.3)
        streams.append(FakeStream(breaks_after=1))
        return streams[-1]

    talk = conversation(FakeStream(breaks_after=1), dial, offline=OfflineOptions(wait_s=0.6))
    answer = await ask(talk, count=6)
    talk.close()
    assert answer.tokens == decoded(PROMPT, 6)
    assert len(streams) > 3


async def test_a_tree_that_is_full_ends_the_run():
    """There is no capacity for 64 more live nodes."""
    talk = conversation(None, Server(back=1000), ChainDrafter(target, depth=400), offline=OfflineOptions(256, 0.2))
    answer = await ask(talk, count=300)
    talk.close()
    assert answer.provisional == decoded(PROMPT, LIMITS.max_nodes)


async def test_an_end_token_stops_the_run():
    end = decoded(PROMPT, 9)[-1]
    expected = decoded(PROMPT, 40)
    expected = expected[: expected.index(end) + 1]
    drafter = ChainDrafter(target, depth=400)
    talk = conversation(None, Server(back=1000), drafter, offline=OfflineOptions(256, 0.2), ends=(end,))
    answer = await ask(talk)
    talk.close()
    assert answer.provisional == expected


@pytest.mark.parametrize("drafter", [None, ChainDrafter(target, depth=400)], ids=["nobody", "a drafter"])
async def test_who_cancels_while_offline_has_the_answer_at_once(drafter):
    shown = Shown()
    talk = conversation(FakeStream(pass_seconds=0.01, breaks_after=3), Server(back=1000), drafter)
    asking = asyncio.create_task(ask(talk, shown, count=300))
    await until(lambda: len(shown.final) >= 3 and not talk._link.is_good)
    await asyncio.sleep(0.05)
    began = now()
    talk.cancel()
    answer = await asking
    assert now() - began < 0.5
    assert answer.finish_reason == "cancelled"
    assert answer.tokens == tuple(shown.final)
    assert answer.provisional == shown.provisional
    assert bool(answer.provisional) is (drafter is not None)
    talk.close()


async def test_the_next_turn_after_an_offline_end_is_answered_when_the_server_is_back():
    server = Server(back=1.0)
    talk = conversation(
        FakeStream(pass_seconds=0.01, breaks_after=3),
        server,
        ChainDrafter(sometimes, depth=400),
        offline=OfflineOptions(limit_tokens=8, wait_s=0.1),
    )
    first = await ask(talk)
    assert first.finish_reason == "offline"
    talk.offline = OfflineOptions(limit_tokens=8, wait_s=10.0)
    tokens = (*PROMPT, *first.tokens, *first.provisional, 2, 7)
    second = await ask(talk, tokens=tokens, count=20)
    talk.close()
    assert second.tokens == decoded(tokens, 20)
    assert second.finish_reason == "length"
    assert [(opened.turn, opened.tokens) for opened in server.opened] == [(1, tokens)]


async def test_a_link_that_broke_between_two_answers_is_renewed_for_the_second():
    server, stream = Server(), FakeStream()
    talk = conversation(stream, server, ChainDrafter(sometimes))
    first = await ask(talk, count=10)
    stream.close()
    stream._frames.put_nowait(LinkError("gone"))
    tokens = (*PROMPT, *first.tokens, 2)
    second = await ask(talk, tokens=tokens, count=10)
    talk.close()
    assert second.tokens == decoded(tokens, 10)


@pytest.mark.parametrize("code", [FailureCode.OVERLOADED, FailureCode.DRAINING])
async def test_a_server_that_has_no_room_for_whom_it_served_is_waited_for(code):
    refusals = [Refusing(code) for _ in range(3)]
    streams = iter([*refusals, FakeStream()])

    async def dial():
        return next(streams)

    told = []
    talk = conversation(FakeStream(pass_seconds=0.01, breaks_after=3), dial, ChainDrafter(sometimes, depth=400))
    answer = await asyncio.wait_for(talk.answer(PROMPT, Settings(COUNT), Shown(), told.append), 20)
    talk.close()
    assert answer.tokens == decoded(PROMPT, COUNT)
    assert answer.stats.reconnects == 1
    assert [len([m for m in each.sent if isinstance(m, Open)]) for each in refusals] == [1, 1, 1]
    assert told.count(LinkState.ONLINE) == 2, "a server that refuses is not back"


async def test_a_next_question_for_which_there_is_no_room_is_refused_with_a_time_to_come_back():
    talk = conversation(FakeStream(), Server(), ChainDrafter(target))
    await ask(talk)
    refusal = Failed(FailureCode.OVERLOADED, "it is busy", retry_after=3.0)
    talk._link._stream.send = lambda message: talk._link._stream._frames.put_nowait(refusal)
    with pytest.raises(ServerRefusedError, match="busy") as refused:
        await ask(talk, tokens=(*PROMPT, 9))
    talk.close()
    assert refused.value.retry_after == 3.0


async def test_a_server_that_drains_in_mid_answer_is_waited_for():
    stream = FakeStream(pass_seconds=0.01)
    talk = conversation(stream, Server(back=0.2), ChainDrafter(sometimes, depth=400))
    shown = Shown()
    asking = asyncio.create_task(ask(talk, shown))
    await until(lambda: len(shown.final) > 4)
    stream._frames.put_nowait(Failed(FailureCode.DRAINING, "draining"))
    answer = await asking
    talk.close()
    assert answer.tokens == decoded(PROMPT, COUNT)


async def test_another_model_behind_the_address_ends_the_answer_and_says_so():
    shown, refusal = Shown(), Refusing(FailureCode.MODEL)

    async def dial():
        await asyncio.sleep(0.3)
        return refusal

    talk = conversation(FakeStream(pass_seconds=0.01, breaks_after=3), dial, ChainDrafter(wrong, depth=400))
    answer = await ask(talk, shown)
    assert (answer.finish_reason, answer.failure) == ("error", "it cannot be")
    assert answer.tokens == tuple(shown.final) == decoded(PROMPT, len(answer.tokens))
    assert len(answer.provisional) > 5
    assert answer.provisional == shown.provisional
    talk.close()


async def test_draft_state_of_a_new_link_is_that_of_the_same_tokens():
    server, drafter = Server(back=0.2, pass_seconds=0.01), StatefulDrafter(sometimes, depth=8)
    talk = conversation(FakeStream(pass_seconds=0.01, breaks_after=4), server, drafter)
    answer = await ask(talk)
    assert answer.tokens == decoded(PROMPT, COUNT)
    assert drafter.mistaken == []
    assert set(drafter.held) >= set(range(len(PROMPT)))
    assert answer.note == ""
    talk.close()


async def test_a_drafter_that_fails_while_writing_alone_leaves_the_rest_to_the_server():
    drafter = ChainDrafter(target, depth=400)

    def fail(tokens):
        if len(tokens) > len(PROMPT) + 10:
            raise RuntimeError("out of memory")
        return target(tokens)

    drafter._propose = fail
    talk = conversation(None, Server(back=0.3), drafter)
    answer = await ask(talk)
    talk.close()
    assert answer.tokens == decoded(PROMPT, COUNT)
    assert "out of memory" in answer.note


async def test_an_answer_says_what_is_there_in_place_of_the_server():
    dial = in_place_of_the_server(HandshakeError("it speaks no TLS"))
    talk = conversation(FakeStream(breaks_after=3), dial, ChainDrafter(target, depth=400), offline=OfflineOptions(5, 1))
    answer = await ask(talk)
    talk.close()
    assert (answer.finish_reason, answer.failure, answer.note) == (OFFLINE, "", "it speaks no TLS")
    assert len(answer.provisional) == 5


async def test_a_token_that_is_no_longer_accepted_ends_the_answer_and_is_told():
    dial = in_place_of_the_server(MisuseError("the server does not accept the bearer token"))
    talk = conversation(FakeStream(breaks_after=3), dial, ChainDrafter(target, depth=400))
    answer = await ask(talk)
    talk.close()
    assert answer.finish_reason == "error"
    assert answer.failure == "the server does not accept the bearer token"
    assert answer.tokens == decoded(PROMPT, len(answer.tokens))


def in_place_of_the_server(error):
    """A dialler of streams that fail so."""

    async def dial():
        stream = FakeStream()
        stream.send = lambda message: stream._frames.put_nowait(error)
        return stream

    return dial
