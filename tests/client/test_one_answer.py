"""What `outrider run` is told of an answer while it comes, on a conversation that reaches nobody."""

import io
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from tokenizers import AddedToken

from client.answering import AnswerOptions, find_policy
from client.link.offline import ignore_wait
from client.one_answer import answer
from client.private.spans import SplitPrompt
from client.stops import before_stop
from client.terminal.render import PlainRenderer, SilentRenderer
from client.text import raw_prompt, raw_tokens
from tests.client.demo.answers import answer as finished
from tests.published import IM_END, PUBLISHED, byte_level


class Letters:
    def decode(self, tokens, **_):
        return "".join(map(chr, tokens))


async def outcome_of(tokenizer, given, *, ends=(), stop=(), prompt=SplitPrompt((1,)), renderer=None) -> dict:  # noqa: B008
    """What a program is told of an answer."""

    async def answered(_, settings, on_tokens, on_link_change):
        on_tokens(given.tokens, ())
        return given

    @asynccontextmanager
    async def converse():
        yield SimpleNamespace()

    description, router = SimpleNamespace(end_tokens=ends), SimpleNamespace(answer=answered)
    client = SimpleNamespace(tokenizer=tokenizer, description=description, privacy_router=lambda _: router)
    options = AnswerOptions(find_policy("stream"), 99, stop=stop)
    return (await answer(client, converse(), prompt, options, renderer or SilentRenderer())).result


async def test_an_end_token_that_is_not_special_is_no_text_of_an_answer():
    tokenizer = byte_level(AddedToken(IM_END))
    end = tokenizer.convert_tokens_to_ids(IM_END)
    given = finished((*raw_tokens(tokenizer, '{"age": 87}'), end))
    assert json.loads((await outcome_of(tokenizer, given, ends=(end,)))["text"]) == {"age": 87}


def is_stopped(tokenizer, tokens, stop) -> bool:
    return any(each in tokenizer.decode(tokens) for each in stop)


@pytest.mark.parametrize("make", PUBLISHED)
@pytest.mark.parametrize("stop", [(), ("stop",), ("fox st",), ("the \N{FOX FACE}",), ("never",)])
async def test_committed_and_provisional_text_are_one_text_up_to_a_stop_string(make, stop):
    tokenizer, text = make(), "the \N{FOX FACE} quick fox stop the User"
    tokens = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    wanted = before_stop(text, stop)
    for seam in range(len(tokens) + 1):
        given = replace(finished(tokens[:seam]), provisional=tokens[seam:])
        told = await outcome_of(tokenizer, given, stop=stop)
        assert told["text"] + told["provisional_text"] == wanted
        complete = next(
            (end for end in range(1, len(tokens)) if is_stopped(tokenizer, tokens[:end], stop)), len(tokens)
        )
        assert told["token_ids"] == list(tokens[:seam])
        assert told["provisional_token_ids"] == list(tokens[seam:complete])
        if seam in (0, len(tokens)):
            assert told["provisional_text" if seam else "text"] == ""


async def test_a_character_that_is_not_whole_ends_an_answer_without_provisional_text():
    tokenizer = byte_level()
    given = finished(tuple(raw_tokens(tokenizer, "a\N{FOX FACE}")[:-1]))
    told = await outcome_of(tokenizer, given)
    assert (told["text"], told["provisional_text"]) == ("a\N{REPLACEMENT CHARACTER}", "")


@pytest.mark.parametrize("make", PUBLISHED)
async def test_the_answer_to_a_raw_prompt_keeps_its_first_blank(make):
    tokenizer, screen = make(), io.StringIO()
    prompt = raw_prompt(tokenizer, "the quick")
    given = finished(tuple(raw_tokens(tokenizer, "\n fox fox")[len(raw_tokens(tokenizer, "\n")) :]))
    told = await outcome_of(tokenizer, given, prompt=prompt, renderer=PlainRenderer(Console(file=screen)))
    assert (told["text"], screen.getvalue()) == (" fox fox", " fox fox\n")


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

    description = SimpleNamespace(end_tokens=())
    router = SimpleNamespace(answer=answered)
    client = SimpleNamespace(tokenizer=Letters(), description=description, privacy_router=lambda _: router)
    options, waits = AnswerOptions(find_policy("stream"), 99), []
    await answer(client, converse(), SplitPrompt((1,), private), options, SilentRenderer(), on_wait=waits.append)
    assert waits == told
