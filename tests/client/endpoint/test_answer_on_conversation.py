"""What is told of an answer, on a client and a conversation that reach nobody."""

from types import SimpleNamespace

import pytest

from client.answering import AnswerOptions, find_policy
from client.endpoint import answer_on_conversation, stream_emitter
from client.endpoint.answer_on_conversation import AnswerOnConversation, Choice
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.stream_emitter import TextForm
from client.private.spans import SplitPrompt
from tests.client.demo.answers import answer
from tests.client.endpoint.test_stream_emitter import CALL, Characters


@pytest.mark.parametrize(
    ("steps", "private", "durations"),
    [
        ([(2, CALL[:1], ""), (3, CALL[1:], "")], None, (2, 3)),
        ([(2, "", "a"), (3, "", "ab")], (1,), (2, 3)),
        ([(5, "", ""), (2, "", "")], None, (7, 0)),
    ],
    ids=["a call that is held back until it is whole", "the draft's own", "no token"],
)
async def test_an_answer_is_timed_by_its_first_token(monkeypatch, steps, private, durations):
    now = 7.0
    for module in (answer_on_conversation, stream_emitter):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))

    async def answered(prompt, settings, on_tokens, on_link_change):
        nonlocal now
        for seconds, committed, provisional in steps:
            now += seconds
            on_tokens(tuple(map(ord, committed)), tuple(map(ord, provisional)))
        return answer(tuple(map(ord, "".join(committed for _, committed, _ in steps))))

    client = SimpleNamespace(
        tokenizer=Characters(),
        description=SimpleNamespace(end_tokens=()),
        privacy_router=lambda _: SimpleNamespace(answer=answered),
    )
    conversation = SimpleNamespace(cancel=None, logprobs_of=lambda _: None, upload_s=lambda: 0.0)
    form = TextForm((), CallParser(Hermes(), {"add"}, lambda: "id"), {}, ())
    choice = Choice(SplitPrompt((1,), private), AnswerOptions(find_policy("stream"), 99), form, is_verified=True)
    finished = await AnswerOnConversation(client, conversation, choice, lambda _: None, lambda _: None).answer()
    assert (finished.waited_s, finished.written_s) == durations
