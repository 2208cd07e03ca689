"""Log-probabilities of answers are those of the target alone, computed by transformers in one forward of all tokens,
whatever was drafted, asked for beside them, or lost on the way."""

import json
import time

import pytest
import torch

from client.drafting.policies import LOCKSTEP, STREAM
from common.drafters.lookup import LookupDrafter
from common.models.checkpoint import load_tokenizer
from common.protocol.client_session import ClientSession, Limits
from common.protocol.constraint import Grammar
from common.protocol.messages import Constraint, Settings
from common.protocol.sampling import Sampling
from common.sampling.grammar import Grammars
from tests.end_to_end.in_memory import CONTEXT, MAX_NODES, LocalServer, Wire
from tests.end_to_end.test_exactness import RandomDrafter, drafter_of
from tests.families import make_checkpoint

PROMPT = [7, 9, 7, 9, 7, 9, 11]
LENGTH = 24
TOP = 5
LATE = 18
"""Committed tokens after which the stream breaks, of which the client has seen fewer."""

SAMPLED = Sampling(
    0.9, top_k=40, seed=5, presence_penalty=1.0, frequency_penalty=0.5, logit_bias=((40, 6.0), (41, -9.0))
)
PENALISED = Sampling(repetition_penalty=1.5, frequency_penalty=0.7, logit_bias=((40, 4.0),))


class Setting:
    def __init__(self, directory):
        self.checkpoint = make_checkpoint(directory, "llama")
        tokenizer = load_tokenizer(self.checkpoint)
        self.end = tokenizer.eos_token_id
        vocab = LocalServer(self.checkpoint).vocab
        self.constrain = Grammars(tokenizer, vocab, {self.end})
        self.server = self.another_server()

    def another_server(self) -> LocalServer:
        return LocalServer(self.checkpoint, frozenset({self.end}), constrain=self.constrain)

    def truth(self, answer) -> torch.Tensor:
        """`[tokens, vocabulary]`, in float64."""
        with torch.inference_mode():
            logits = self.server.model(torch.tensor([[*PROMPT, *answer]])).logits[0]
        assert logits.dtype is torch.float64
        return logits.log_softmax(-1)[len(PROMPT) - 1 : -1]

    def check(self, answer, rows, top: int = TOP) -> None:
        """That each row has the token's own log-probability and the likeliest tokens, in the order of theirs."""
        expected = self.truth(answer)
        assert len(rows) == len(answer) > 0
        for token, row, logps in zip(answer, rows, expected, strict=True):
            assert row.logp == pytest.approx(logps[token].item(), abs=1e-5)
            best = logps.topk(top)
            assert [likely for likely, _ in row.top] == best.indices.tolist()
            assert [logp for _, logp in row.top] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.fixture(scope="module")
def setting(tmp_path_factory) -> Setting:
    return Setting(tmp_path_factory.mktemp("logprobs"))


def drafter_named(kind, setting):
    return {"none": lambda: None, "random": RandomDrafter, "lookup": LookupDrafter}.get(
        kind, lambda: drafter_of(kind, setting.checkpoint)
    )()


async def ask(setting, kind, settings, policy=STREAM, clock=time.monotonic):
    """The answer's tokens and their log-probabilities."""
    drafter = drafter_named(kind, setting)
    async with setting.server.running(clock), setting.server.converse(drafter, policy) as conversation:
        answer = await conversation.answer(PROMPT, settings, lambda committed, provisional: None)
        assert not answer.note
        return answer.tokens, [conversation.logprobs_of(index) for index in range(len(answer.tokens))]


@pytest.mark.parametrize("kind", ["none", "independent", "random"])
@pytest.mark.parametrize(
    ("rule", "sampling"),
    [
        ("greedy", Sampling()),
        ("greedy", PENALISED),
        ("coupled", SAMPLED),
        ("speculative", SAMPLED),
        ("typical", SAMPLED),
    ],
    ids=["greedy", "penalised", "coupled", "speculative", "typical"],
)
async def test_they_are_the_models_own(setting, rule, sampling, kind):
    passes = setting.server.counters.passes
    asked = Settings(LENGTH, rule, idle="lockstep", sampling=sampling, top_logprobs=TOP)
    # Nodes of a random model are unlikely, and left out of passes that seem to take longer with them.
    answer, rows = await ask(setting, kind, asked, LOCKSTEP, clock=lambda: 0.0)
    setting.check(answer, rows)
    if kind == "independent":
        assert setting.server.counters.passes - passes < len(answer), "drafted tokens were accepted"


async def test_without_a_wish_none_travel(setting):
    _, rows = await ask(setting, "independent", Settings(LENGTH))
    assert set(rows) == {None}


async def test_the_wish_for_none_beside_the_tokens_own(setting):
    answer, rows = await ask(setting, "independent", Settings(LENGTH, top_logprobs=0))
    setting.check(answer, rows, top=0)


async def test_the_answer_is_the_same_and_a_constrained_one_has_them_of_every_token(setting):
    """Also of those that leave no choice, which then take part in passes."""
    constraint = Constraint(Grammar.JSON_SCHEMA, json.dumps({"const": {"a": [1, 2], "b": "the same text"}}))
    for kind in ("none", "independent"):
        answer, rows = await ask(setting, kind, Settings(60, constraint=constraint, top_logprobs=TOP))
        setting.check(answer, rows)
        assert answer == (await ask(setting, kind, Settings(60, constraint=constraint)))[0]


@pytest.mark.parametrize("moves", [False, True], ids=["the same server", "another server"])
async def test_a_broken_stream_loses_none(setting, moves):
    """The session is gone, or on another server, and is computed again from what the client knows."""
    session = ClientSession("a session that moves", Limits("f", setting.server.vocab, CONTEXT, MAX_NODES))
    server = setting.another_server()
    async with server.running():
        wire = Wire(server._engine)
        wire.send(session.open(PROMPT, Settings(LENGTH, top_logprobs=TOP)))
        while len(session.answer) < 4:
            session.receive(await wire.receive())
        (entry,) = server.sessions._registry.entries
        while len(entry.session.tree.tokens) - len(PROMPT) < LATE:
            await wire.receive()
        wire.close()
        session.lost()
        if not moves:
            await finish(server, session)
    if moves:
        server = setting.another_server()
        async with server.running():
            await finish(server, session)
    rows = [session.logprobs_of(index) for index in range(len(session.answer))]
    setting.check(session.answer, rows)


async def finish(server, session):
    wire = Wire(server._engine)
    for message in session.reopen():
        wire.send(message)
    while session.finished is None:
        session.receive(await wire.receive())
    wire.close()
