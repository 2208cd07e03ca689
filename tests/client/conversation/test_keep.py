"""Provisional text that is kept as final while no server can judge it stays in the answer."""

import asyncio

from client.conversation import Conversation
from client.link.offline import OfflineOptions
from tests.client.conversation.conversations import COUNT, PROMPT, Server, Shown, ask, conversation
from tests.client.fakes import END, ChainDrafter, FakeStream, decoded, target, wrong


class Speaker:
    """Keeps whatever may be kept: committed text, and provisional text as soon as no server can judge it."""

    def __init__(self):
        self.talk: Conversation | None = None
        self.said: list[int] = []
        self.kept = 0

    def __call__(self, committed, provisional):
        self.said += committed
        kept = self.talk.accept_unverified(len(provisional))
        self.kept += len(kept)
        self.said += kept


async def spoken(speaker: Speaker, talk: Conversation, **how):
    speaker.talk = talk
    answer = await ask(talk, speaker, **how)
    talk.close()
    return answer


async def test_nothing_can_be_kept_while_somebody_judges():
    speaker = Speaker()
    answer = await spoken(speaker, conversation(FakeStream(pass_seconds=0.005), None, ChainDrafter(wrong)))
    assert speaker.kept == answer.stats.unverified_tokens == 0
    assert answer.tokens == tuple(speaker.said) == decoded(PROMPT, COUNT)


async def test_what_was_said_stays_and_the_target_goes_on_behind_it():
    speaker = Speaker()
    stream = FakeStream(pass_seconds=0.005, breaks_after=2)
    answer = await spoken(
        speaker, conversation(stream, Server(back=0.3), ChainDrafter(wrong), offline=OfflineOptions(8))
    )
    assert answer.tokens == tuple(speaker.said)
    assert answer.stats.unverified_tokens == speaker.kept == 8, "as many as may be written alone, and no more"
    assert (len(answer.tokens), answer.finish_reason) == (COUNT, "length")
    assert answer.stats.accept_length == (COUNT - 8) / answer.stats.passes, "no pass has verified what was kept"
    assert answer.tokens != decoded(PROMPT, COUNT)
    assert answer.tokens[-1] == target((*PROMPT, *answer.tokens[:-1]))


async def test_an_answer_that_is_whole_waits_for_nobody():
    speaker = Speaker()
    talk = conversation(None, Server(back=1000), ChainDrafter(wrong), offline=OfflineOptions(256, wait_s=1000))
    answer = await spoken(speaker, talk)
    assert (answer.tokens, answer.provisional, answer.finish_reason) == (tuple(speaker.said), (), "offline")
    assert answer.stats.unverified_tokens == COUNT


async def test_nothing_is_written_behind_an_end_token_that_was_said():
    def ending(tokens):
        return END if len(tokens) == len(PROMPT) + 5 else wrong(tokens)

    speaker = Speaker()
    talk = conversation(
        None, Server(back=1000), ChainDrafter(ending), offline=OfflineOptions(256, wait_s=1000), ends={END}
    )
    answer = await spoken(speaker, talk)
    assert len(answer.tokens) == 6
    assert answer.tokens[-1] == END


async def test_a_draft_that_goes_round_in_circles_is_stopped_and_the_answer_says_so():
    speaker = Speaker()
    circling = ChainDrafter(lambda tokens: 1 + len(tokens) % 3)
    talk = conversation(None, Server(back=1000), circling, offline=OfflineOptions(256, wait_s=0.1))
    answer = await spoken(speaker, talk, count=200)
    assert answer.stats.unverified_tokens == len(speaker.said) < 50
    assert (answer.finish_reason, answer.note) == ("offline", "the draft began to repeat itself and was stopped")


async def test_who_keeps_what_was_written_has_it_in_the_answer():
    server, shown = Server(back=0.5), Shown()
    talk = conversation(
        FakeStream(pass_seconds=0.01, breaks_after=3),
        server,
        ChainDrafter(wrong, depth=400),
        offline=OfflineOptions(limit_tokens=10, wait_s=5.0, accept_unverified=True),
    )
    answer = await ask(talk, shown)
    talk.close()
    assert answer.tokens == tuple(shown.final)
    assert (len(answer.tokens), answer.provisional, answer.stats.unverified_tokens) == (COUNT, (), 10)
    (opened,) = server.opened
    kept = opened.tokens[len(PROMPT) :]
    judged = len(kept) - 10
    assert kept[:judged] == decoded(PROMPT, judged)
    tokens = [*PROMPT, *kept[:judged]]
    for token in kept[judged:]:
        assert token == wrong(tokens)
        tokens.append(token)
    assert answer.tokens == (*kept, *decoded(tokens, COUNT - len(kept)))


class FarAway(FakeStream):
    """Its frames take a while."""

    async def receive(self):
        frame = await super().receive()
        await asyncio.sleep(0.1)
        return frame


async def test_what_was_written_whole_and_kept_is_ended_by_the_server_that_is_back():
    async def dial():
        await asyncio.sleep(0.5)
        return FarAway()

    talk = conversation(
        FakeStream(pass_seconds=0.01, breaks_after=3),
        dial,
        ChainDrafter(wrong, depth=400),
        offline=OfflineOptions(limit_tokens=COUNT, wait_s=5.0, accept_unverified=True),
    )
    answer = await ask(talk)
    talk.close()
    assert (answer.finish_reason, len(answer.tokens), answer.provisional) == ("length", COUNT, ())


async def test_who_keeps_nothing_that_was_written_loses_nothing():
    talk = conversation(
        FakeStream(breaks_after=3), Server(back=0.2), None, offline=OfflineOptions(accept_unverified=True)
    )
    answer = await ask(talk)
    talk.close()
    assert (answer.tokens, answer.stats.unverified_tokens) == (decoded(PROMPT, COUNT), 0)
