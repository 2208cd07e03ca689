"""The pool of conversations: prompts continue the conversation that holds them, size is bounded, waiting is fair."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.endpoint import conversation_pool as desk_module
from client.endpoint.conversation_pool import ConversationPool
from client.endpoint.faults import FaultError


class Conversation:
    def __init__(self):
        self.tokens = ()
        self.is_sound = True


class FakeServer:
    """Opens conversations and counts those that are open."""

    def __init__(self):
        self.opened: list[Conversation] = []
        self.open = 0

    @asynccontextmanager
    async def converse(self, model):
        self.open += 1
        self.opened.append(Conversation())
        yield self.opened[-1]
        self.open -= 1


@pytest.fixture
def fake_server() -> FakeServer:
    return FakeServer()


async def talk(pool: ConversationPool, tokens, model="a", **how) -> Conversation:
    async with pool.conversation(model, tokens, **how) as conversation:
        conversation.tokens = tuple(tokens)
        return conversation


async def test_a_prompt_goes_on_where_most_of_it_is_known(fake_server):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        first, second = await talk(pool, range(10)), await talk(pool, range(50, 60))
        assert first is not second
        assert await talk(pool, [*range(10), 99]) is first
        assert await talk(pool, [*range(50, 60), 99]) is second
    assert fake_server.open == 0


async def test_at_most_so_many_are_open_and_the_longest_unused_is_taken_over(fake_server):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        first, _ = await talk(pool, [1, 2]), await talk(pool, [3, 4])
        assert await talk(pool, [5, 6]) is first
    assert len(fake_server.opened) == 2


async def test_who_finds_no_place_waits_and_then_is_served_in_turn(fake_server):
    served = []
    leave = asyncio.Event()

    async def sit(number):
        async with pool.conversation("a", [number]):
            served.append(number)
            await leave.wait()

    async with ConversationPool(fake_server.converse, slots=1, waiting=2) as pool:
        sitting = [asyncio.create_task(sit(number)) for number in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (served, pool.answering, pool.waiting) == ([0], 1, 2)
        with pytest.raises(FaultError, match="too many") as refused:
            await talk(pool, [3])
        assert refused.value.fault.status == 429
        assert refused.value.fault.retry_after > 0
        leave.set()
        await asyncio.gather(*sitting)
        assert served == [0, 1, 2]
        assert (pool.answering, pool.waiting) == (0, 0)


async def test_who_stops_waiting_leaves_no_gap(fake_server):
    async with ConversationPool(fake_server.converse, slots=1, waiting=1) as pool:
        async with pool.conversation("a", [1]):
            waiting = asyncio.create_task(talk(pool, [2]))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert pool.waiting == 0
        await talk(pool, [3])


@pytest.mark.parametrize("spoil", ["only once", "unsound"])
async def test_what_nobody_may_go_on_with_is_closed(fake_server, spoil):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        async with pool.conversation("a", [1, 2], only_once=spoil == "only once") as conversation:
            conversation.tokens = (1, 2)
            conversation.is_sound = spoil != "unsound"
        assert fake_server.open == 0
        assert await talk(pool, [1, 2]) is not conversation


async def test_a_private_prompt_never_goes_on_with_anothers_conversation(fake_server):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        first = await talk(pool, [1, 2])
        assert await talk(pool, [1, 2], only_once=True) is not first


async def test_private_prompts_too_keep_to_the_seats(fake_server):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        for first in (1, 10):
            await talk(pool, range(first, first + 5))
        async with pool.conversation("a", [7], only_once=True):
            assert fake_server.open == 2
            assert (pool.answering, pool.answering_alone) == (1, 1)
        async with pool.conversation("a", [7]):
            assert (pool.answering, pool.answering_alone) == (1, 0)


async def test_what_is_given_back_to_a_pool_that_has_ended_is_closed(fake_server):
    leave = asyncio.Event()

    async def sit():
        async with pool.conversation("a", [1]):
            await leave.wait()

    async with ConversationPool(fake_server.converse, slots=1, waiting=0) as pool:
        sitting = asyncio.create_task(sit())
        await asyncio.sleep(0)
    assert fake_server.open == 1
    leave.set()
    await sitting
    assert fake_server.open == 0


async def test_a_conversation_whose_time_is_up_is_not_given_to_anybody(fake_server):
    async with ConversationPool(fake_server.converse, slots=1, waiting=0) as pool:
        first = await talk(pool, [1, 2])
        pool._expire(pool._idle[0])
        assert await talk(pool, [1, 2]) is not first


async def test_an_answer_that_fails_leaves_its_place(fake_server):
    async with ConversationPool(fake_server.converse, slots=1, waiting=0) as pool:
        for _ in range(3):
            with pytest.raises(RuntimeError):
                async with pool.conversation("a", [1]):
                    raise RuntimeError
        await talk(pool, [1])
    assert fake_server.open == 0


async def test_a_conversation_that_nobody_goes_on_with_is_closed(fake_server, monkeypatch):
    monkeypatch.setattr(desk_module, "_IDLE_S", 0.01)
    async with ConversationPool(fake_server.converse, slots=1, waiting=0) as pool:
        await talk(pool, [1])
        assert fake_server.open == 1
        while fake_server.open:
            await asyncio.sleep(0.005)


async def test_a_conversation_answers_its_own_model_alone(fake_server):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        of_a, of_b = await talk(pool, range(10)), await talk(pool, range(10), "b")
        assert of_a is not of_b
        assert await talk(pool, [*range(10), 99], "b") is of_b
        assert await talk(pool, [*range(10), 99]) is of_a


async def test_a_full_pool_closes_the_longest_unused_conversation_of_any_model(fake_server):
    async with ConversationPool(fake_server.converse, slots=2, waiting=0) as pool:
        of_a, kept = await talk(pool, [1, 2]), await talk(pool, [3, 4])
        of_b = await talk(pool, [1, 2], "b")
        assert fake_server.open == 2
        assert await talk(pool, [3, 4]) is kept
        assert await talk(pool, [1, 2]) not in (of_a, of_b)
