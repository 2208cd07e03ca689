"""What is told of an answer, on a client and a conversation that reach nobody."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from client.answer import OFFLINE
from client.answering import AnswerOptions, find_policy
from client.endpoint import answer_on_conversation, stream_emitter
from client.endpoint.answer_on_conversation import AnswerOnConversation, Choice, to_its_end
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.answer_parsers.pieces import PlainText, TextPiece
from client.endpoint.faults import FaultError, internal
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.stream_emitter import TextForm
from client.link.link_state import LinkState
from client.private.spans import SplitPrompt
from client.refusals import Refusals
from common.protocol.constraint import no_constraints
from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import Failed, FailureCode
from common.protocol.sampling import Sampling
from common.rpc.errors import HandshakeError, LinkError, UnauthorizedError
from tests.client.demo.answers import answer
from tests.client.endpoint.test_stream_emitter import CALL, Characters, Letters


async def finished_answer(
    answered, tokenizer, choice: Choice, end_tokens=(), on_link_change=lambda _: None, emit=lambda _: None, cancel=None
) -> FinishedAnswer:
    """`answered` is how a router answers."""
    client = SimpleNamespace(
        tokenizer=tokenizer,
        constrain=no_constraints,
        description=SimpleNamespace(end_tokens=end_tokens),
        privacy_router=lambda _: SimpleNamespace(answer=answered, cancel=cancel),
    )
    conversation = SimpleNamespace(
        cancel=None, logprobs_of=lambda _: None, upload_s=lambda: 0.0, accept_unverified=None
    )
    return await AnswerOnConversation(client, conversation, choice, emit, on_link_change).answer()


@pytest.mark.parametrize(("code", "status"), [(FailureCode.INVALID, 400), (FailureCode.OVERLOADED, 503)])
async def test_what_the_server_finds_invalid_is_not_to_be_asked_again(code, status):
    async def refuse(*_):
        refusals, failed = Refusals(), Failed(code, "the prompt is too long")
        refusals.is_of_one_replica(failed)
        raise refusals.error_for(failed)

    router, options = SimpleNamespace(answer=refuse), AnswerOptions(find_policy("stream"), 9)
    with pytest.raises(FaultError, match="the prompt is too long") as raised:
        await to_its_end(router, SplitPrompt((1,)), options, lambda *_: None, lambda _: None)
    assert raised.value.fault.status == status
    assert (raised.value.fault.retry_after is None) == (status == 400)


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (LinkError("it broke"), 503, "out of reach"),
        (HandshakeError("it speaks no TLS"), 503, "out of reach"),
        (MisuseError("the conversation is too long"), 400, "the conversation is too long"),
        (UnauthorizedError("the token is not accepted"), 502, "the token is not accepted"),
        (PeerError("the server failed"), 502, "the server failed"),
    ],
)
async def test_each_failure_has_the_status_that_says_whose_it_is(error, status, says):
    async def fail(*_):
        raise error

    router, options = SimpleNamespace(answer=fail), AnswerOptions(find_policy("stream"), 9)
    with pytest.raises(FaultError, match=says) as raised:
        await to_its_end(router, SplitPrompt((1,)), options, lambda *_: None, lambda _: None)
    assert raised.value.fault.status == status


@pytest.mark.parametrize(("private", "seen"), [(None, [LinkState.ONLINE]), ((1,), [])])
async def test_what_a_server_commits_says_that_the_link_is_back(private, seen):
    """Another conversation had lost it, and this one did not."""
    given, states = answer((1,)), list[LinkState]()

    async def answered(prompt, settings, on_tokens, on_link_change):
        on_tokens(given.tokens, ())
        return given

    form = TextForm((), PlainText(), {}, ())
    choice = Choice(SplitPrompt((1,), private), AnswerOptions(find_policy("stream"), 99), form, is_verified=False)
    await finished_answer(answered, Letters(), choice, on_link_change=states.append)
    assert states == seen


@pytest.mark.parametrize(("tokens", "limit", "reason"), [((1, 2), 99, "stop"), ((1, 3), 2, "length")])
async def test_a_verified_answer_is_whole_without_the_servers_word_that_it_is(tokens, limit, reason):
    """The link broke behind its last token."""

    def answered(given):
        async def of_router(prompt, settings, on_tokens, on_link_change):
            on_tokens(given.tokens, ())
            return given

        return of_router

    form = TextForm((), PlainText(), {}, ())
    choice = Choice(SplitPrompt((1,)), AnswerOptions(find_policy("stream"), limit), form, is_verified=True)
    given = replace(answer(tokens), finish_reason=OFFLINE)
    finished = await finished_answer(answered(given), Letters(), choice, end_tokens=(2,))
    assert (finished.reason, finished.tokens) == (reason, 2)
    with pytest.raises(FaultError, match="out of reach"):
        await finished_answer(answered(replace(given, tokens=(1,))), Letters(), choice, end_tokens=(2,))


@pytest.mark.parametrize(
    ("text", "drafted", "reason", "note"),
    [
        ("ab", "", "length", "not whole"),
        ("ab", "de", "length", "not whole"),
        ("", "de", "length", "not whole"),
        ("a", "dz", "stop", ""),
    ],
)
async def test_an_answer_that_is_cut_says_that_it_is_not_whole(text, drafted, reason, note):
    """Its reason is that of an answer at its limit: OpenAI has none for a server that is gone. "z" ends an answer."""
    committed, written = (tuple(ord(character) - 96 for character in each) for each in (text, drafted))
    given = replace(answer(committed), finish_reason=OFFLINE, provisional=written)

    async def answered(prompt, settings, on_tokens, on_link_change):
        on_tokens(given.tokens, ())
        return given

    form = TextForm((), PlainText(), {}, ())
    choice = Choice(SplitPrompt((1,)), AnswerOptions(find_policy("stream"), 99), form, is_verified=False)
    finished = await finished_answer(answered, Letters(), choice, end_tokens=(26,))
    assert (finished.text, finished.reason) == (text + drafted, reason)
    assert note in finished.details.get("note", "")
    assert ("note" in finished.details) == bool(note)


def test_a_crash_without_words_is_told_by_its_kind():
    assert "AssertionError" in internal(AssertionError()).message


async def test_of_an_answer_that_fails_only_committed_text_is_emitted():
    given = replace(answer((1, 2)), finish_reason="error", failure="the server failed: internal", provisional=(4, 5))

    async def answered(prompt, settings, on_tokens, on_link_change):
        on_tokens(given.tokens, given.provisional)
        return given

    said: list[TextPiece] = []
    form = TextForm((), PlainText(), {}, ())
    choice = Choice(SplitPrompt((1,)), AnswerOptions(find_policy("stream"), 99), form, is_verified=False)
    with pytest.raises(FaultError, match="the server failed"):
        await finished_answer(answered, Letters(), choice, emit=said.append)
    assert said == [TextPiece("ab")]


@pytest.mark.parametrize("text", ["cab", "dcab", "cabddd"])
async def test_an_offline_answer_that_ends_at_a_stop_string_is_whole(text):
    """Also if it has no text then."""
    written = tuple(ord(character) - 96 for character in text)
    given = replace(answer(()), finish_reason=OFFLINE, provisional=written)

    async def answered(prompt, settings, on_tokens, on_link_change):
        return given

    form = TextForm(("cab",), PlainText(), {}, ())
    choice = Choice(SplitPrompt((1,)), AnswerOptions(find_policy("stream"), 99), form, is_verified=False)
    finished = await finished_answer(answered, Letters(), choice)
    assert (finished.text, finished.reason) == (text[: text.index("cab")], "stop")
    assert "note" not in finished.details
    assert finished.tokens == finished.unverified == text.index("cab") + 3


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

    form = TextForm((), CallParser(Hermes(), {"add"}, lambda: "id"), {}, ())
    choice = Choice(SplitPrompt((1,), private), AnswerOptions(find_policy("stream"), 99), form, is_verified=True)
    finished = await finished_answer(answered, Characters(), choice)
    assert (finished.waited_s, finished.written_s) == durations


@pytest.mark.parametrize(
    ("rule", "temperature", "unverified", "is_lossy"),
    [("greedy", 0.0, 0, False), ("greedy", 0.0, 1, True), ("typical", 1.0, 0, True), ("typical", 0.0, 0, False)],
)
async def test_what_may_be_none_of_the_targets_own_is_marked_as_lossy(rule, temperature, unverified, is_lossy):
    given = answer((1, 2))
    given = replace(given, stats=replace(given.stats, unverified_tokens=unverified))

    async def answered(prompt, settings, on_tokens, on_link_change):
        on_tokens(given.tokens, ())
        return given

    options = AnswerOptions(find_policy("stream"), 99, rule, sampling=Sampling(temperature))
    choice = Choice(SplitPrompt((1,)), options, TextForm((), PlainText(), {}, ()), is_verified=False)
    assert (await finished_answer(answered, Letters(), choice)).details["lossy"] is is_lossy


@pytest.mark.parametrize(("private", "is_lossy"), [(None, True), ((1,), False)])
async def test_what_the_draft_model_wrote_at_last_is_lossy_unless_nobody_else_may_see_it(private, is_lossy):
    given = replace(answer(()), finish_reason=OFFLINE, provisional=(1, 2), private=private is not None)

    async def answered(prompt, settings, on_tokens, on_link_change):
        on_tokens((), given.provisional)
        return given

    options = AnswerOptions(find_policy("stream"), 99, "typical", sampling=Sampling(1.0 if private else 0.0))
    choice = Choice(SplitPrompt((1,), private), options, TextForm((), PlainText(), {}, ()), is_verified=False)
    finished = await finished_answer(answered, Letters(), choice)
    assert (finished.unverified, finished.details["lossy"]) == (2, is_lossy)


async def test_a_private_answer_ends_with_a_stop_string_that_its_draft_does_not_see():
    """As where special tokens stand in it."""
    drafted, ended = tuple(map(ord, "abcabc")), asyncio.Event()

    async def answered(prompt, settings, on_tokens, on_link_change):
        for count in range(1, len(drafted) + 1):
            on_tokens((), drafted[:count])
            if ended.is_set():
                break
        return replace(answer(()), finish_reason="cancelled", provisional=drafted[:count], private=True)

    form = TextForm(("bc",), PlainText(), {}, ())
    choice = Choice(SplitPrompt((1,), (1,)), AnswerOptions(find_policy("stream"), 99), form, is_verified=False)
    finished = await finished_answer(answered, Characters(), choice, cancel=ended.set)
    assert (finished.text, finished.reason, finished.tokens) == ("a", "stop", 3)
    assert ended.is_set()
