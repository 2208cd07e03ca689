"""Asking for an answer that is compared: only a complete one counts."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from client.answer import Answer
from client.answering import AnswerOptions
from client.demo.asking import ask_tokens
from client.drafting.policies import STREAM
from client.errors import BrokenOffError, DemoError
from tests.client.demo.answers import answer

OPTIONS = AnswerOptions(STREAM, 8)


@dataclass
class Answering:
    """A client and a conversation that always gives the same answer."""

    given: Answer

    @asynccontextmanager
    async def converse(self, policy, drafter, pace):
        yield self

    async def answer(self, tokens, settings, watch):
        watch(self.given.tokens, ())
        return self.given


async def test_a_whole_answer_is_returned_and_watched():
    seen = []
    given = await ask_tokens(Answering(answer()), [1], OPTIONS, None, lambda *tokens: seen.append(tokens))
    assert given == answer()
    assert seen == [((1, 2, 3, 4), ())]


@pytest.mark.parametrize(
    ("fault", "error"), [({"failure": "the link broke"}, BrokenOffError), ({"note": "the drafter failed"}, DemoError)]
)
async def test_what_is_not_the_system_s_whole_work_does_not_count(fault, error):
    with pytest.raises(error, match=next(iter(fault.values()))):
        await ask_tokens(Answering(replace(answer(), **fault)), [1], OPTIONS, None)
