"""What `outrider run` is told of an answer while it comes, on a conversation that reaches nobody."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from client.answering import AnswerOptions, find_policy
from client.link.offline import ignore_wait
from client.one_answer import answer
from client.private.spans import SplitPrompt
from client.terminal.render import SilentRenderer
from tests.client.demo.answers import answer as finished


class Letters:
    def decode(self, tokens, **_):
        return "".join(map(chr, tokens))


@pytest.mark.parametrize(("private", "told"), [(None, [10.0]), ((1,), [])], ids=["public", "private"])
async def test_a_wait_is_told_while_nothing_of_a_public_answer_is_there(private, told):
    session = SimpleNamespace(answer=[])
    conversation = SimpleNamespace(session=session, on_wait=ignore_wait)

    async def answered(prompt, settings, on_tokens, on_link_change):
        conversation.on_wait(10.0)
        session.answer.append(97)
        conversation.on_wait(5.0)
        return finished((97,))

    @asynccontextmanager
    async def converse():
        yield conversation

    client = SimpleNamespace(tokenizer=Letters(), privacy_router=lambda _: SimpleNamespace(answer=answered))
    options, waits = AnswerOptions(find_policy("stream"), 99), []
    await answer(client, converse(), SplitPrompt((1,), private), options, SilentRenderer(), on_wait=waits.append)
    assert waits == told
