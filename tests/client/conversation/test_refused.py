"""An answer that the server refuses for now: reported with its hint, or continued after it."""

import asyncio

import pytest

from client.errors import ServerRefusedError
from client.link.link_state import LinkState, LinkWatch
from common.protocol.messages import Extend, Failed, FailureCode, Open, Settings
from tests.client.conversation.conversations import COUNT, Shown, ask, conversation, now, until
from tests.client.fakes import FakeStream, decoded

PROMPT = [3, 1, 4]
WAIT = 0.4


class Refusing(FakeStream):
    """Refuses every Open, with a hint."""

    def __init__(self, code: FailureCode, failed: Failed | None = None):
        super().__init__()
        self._failed = failed or Failed(code, "come back later", WAIT)

    def _take(self, message):
        if isinstance(message, Open):
            self._frames.put_nowait(self._failed)


class Dials:
    """Returns the streams in turn, and records the times."""

    def __init__(self, *streams: FakeStream):
        self.at: list[float] = []
        self._streams = iter(streams)

    async def __call__(self) -> FakeStream:
        self.at.append(now())
        return next(self._streams)


@pytest.mark.parametrize("code", [FailureCode.OVERLOADED, FailureCode.QUOTA])
async def test_a_first_question_that_is_refused_is_told_with_the_seconds_to_wait(code: FailureCode):
    talk = conversation(Refusing(code), Dials())
    with pytest.raises(ServerRefusedError, match="come back later") as refused:
        await ask(talk, tokens=PROMPT)
    assert refused.value.retry_after == WAIT
    talk.close()


async def test_a_first_question_to_a_server_that_drains_goes_once_to_the_one_that_takes_over():
    talk = conversation(Refusing(FailureCode.DRAINING), Dials(FakeStream()))
    assert (await ask(talk, tokens=PROMPT)).tokens == decoded(PROMPT, COUNT)
    talk.close()
    alone = conversation(Refusing(FailureCode.DRAINING), Dials(Refusing(FailureCode.DRAINING)))
    with pytest.raises(ServerRefusedError, match="come back later"):
        await ask(alone, tokens=PROMPT)
    alone.close()


@pytest.mark.parametrize("code", [FailureCode.QUOTA, FailureCode.OVERLOADED, FailureCode.INVALID])
async def test_a_stream_that_is_left_for_a_refusal_is_no_lost_link(code: FailureCode):
    talk, states = conversation(Refusing(code), Dials()), list[LinkState]()
    with pytest.raises(ServerRefusedError):
        await talk.answer(PROMPT, Settings(COUNT), Shown(), states.append)
    assert LinkState.OFFLINE not in states
    talk.close()


async def test_nor_is_one_that_is_left_because_nobody_waits_for_its_answer():
    talk, shown, states = conversation(FakeStream(pass_seconds=0.01), Dials()), Shown(), list[LinkState]()
    asking = asyncio.create_task(talk.answer(PROMPT, Settings(COUNT), shown, states.append))
    await until(lambda: len(shown.final) > 4)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert LinkState.OFFLINE not in states
    talk.close()


class Leaves:
    """Finds another replica as often as it says, and records what it is asked."""

    def __init__(self, *found: bool):
        self.asked: list[float] = []
        self._found = iter(found)

    async def __call__(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return next(self._found)


@pytest.mark.parametrize("code", [FailureCode.OVERLOADED, FailureCode.MEMORY, FailureCode.DRAINING])
async def test_a_question_that_a_full_replica_refuses_is_answered_by_another(code: FailureCode):
    leaves = Leaves(True, True)
    talk = conversation(Refusing(code), Dials(Refusing(code), FakeStream()), leave_full=leaves)
    began = now()
    assert (await ask(talk, tokens=PROMPT)).tokens == decoded(PROMPT, COUNT)
    assert leaves.asked == [WAIT, WAIT]
    assert now() - began < WAIT, "another replica is not waited for as the full one asked"
    talk.close()


async def test_a_refusal_is_told_once_no_other_replica_is_left():
    leaves = Leaves(True, False)
    talk = conversation(Refusing(FailureCode.OVERLOADED), Dials(Refusing(FailureCode.OVERLOADED)), leave_full=leaves)
    with pytest.raises(ServerRefusedError, match="come back later"):
        await ask(talk, tokens=PROMPT)
    talk.close()


async def test_of_several_refusals_that_is_told_which_says_soonest_when_to_come_back():
    said = [
        Failed(FailureCode.OVERLOADED, "late", 9.0),
        Failed(FailureCode.DRAINING, "it goes", 1.0),
        Failed(FailureCode.OVERLOADED, "soon", 3.0),
        Failed(FailureCode.OVERLOADED, "no idea"),
    ]
    first, *others = (Refusing(failed.code, failed) for failed in said)
    talk = conversation(first, Dials(*others), leave_full=Leaves(True, True, True, False))
    with pytest.raises(ServerRefusedError, match="soon") as refused:
        await ask(talk, tokens=PROMPT)
    assert refused.value.retry_after == 3.0
    talk.close()


async def test_what_is_the_same_at_every_replica_is_told_at_once():
    leaves = Leaves()
    talk = conversation(Refusing(FailureCode.QUOTA), Dials(), leave_full=leaves)
    with pytest.raises(ServerRefusedError) as refused:
        await ask(talk, tokens=PROMPT)
    assert refused.value.over_quota
    assert leaves.asked == []
    talk.close()


@pytest.mark.parametrize("code", [FailureCode.OVERLOADED, FailureCode.DRAINING, FailureCode.QUOTA])
async def test_an_answer_that_was_begun_goes_on_once_the_wait_is_over(code: FailureCode):
    first, shown = FakeStream(pass_seconds=0.01), Shown()
    dials = Dials(FakeStream())
    talk = conversation(first, dials)
    asking = asyncio.create_task(ask(talk, shown, tokens=PROMPT))
    await until(lambda: len(shown.final) > 4)
    refused_at = now()
    first._frames.put_nowait(Failed(code, "come back later", WAIT))
    answer = await asking
    talk.close()
    assert answer.tokens == decoded(PROMPT, COUNT)
    assert len(dials.at) == 1
    assert dials.at[0] - refused_at >= WAIT


async def test_what_a_client_has_used_up_before_its_next_question_no_waiting_in_silence_brings_back():
    stream = FakeStream()
    talk = conversation(stream, Dials())
    first = await ask(talk, tokens=PROMPT)

    def refuse(message):
        if isinstance(message, Extend):
            stream._frames.put_nowait(Failed(FailureCode.QUOTA, "come back later", WAIT))

    stream.send = refuse  # type: ignore[method-assign]
    with pytest.raises(ServerRefusedError) as refused:
        await asyncio.wait_for(
            talk.answer([*PROMPT, *first.tokens, 5], Settings(COUNT), lambda committed, provisional: None), 20
        )
    assert refused.value.retry_after == WAIT
    talk.close()


def test_a_link_is_not_tried_before_the_server_said_and_then_not_by_all_at_once():
    due = []
    for uniform in (0.0, 0.9):
        link = LinkWatch(lambda uniform=uniform: uniform)
        link.broken(10.0, 5.0)
        due.append(link.due)
    assert 15.0 < due[0] < due[1] < 15.2
    link.retry_now()
    assert link.due < 10.0
