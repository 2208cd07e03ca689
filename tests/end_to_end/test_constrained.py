"""Constrained answers are the target's own under the same masks, whatever was drafted; forced tokens cost no pass."""

import asyncio
import json
import time

import numpy as np
import pytest
import torch
from llguidance import LLMatcher, LLTokenizer
from transformers import LogitsProcessor

from client.drafting.policies import LOCKSTEP
from client.errors import ServerRefusedError
from common.drafters.lookup import LookupDrafter
from common.models.checkpoint import load_tokenizer
from common.protocol.client_session import ClientSession, Limits
from common.protocol.constraint import Grammar
from common.protocol.messages import Constraint, Settings
from common.protocol.sampling import LIKELIEST, Sampling
from common.sampling.grammar import Grammars
from tests.end_to_end.in_memory import CONTEXT, MAX_NODES, LocalServer, Wire
from tests.end_to_end.test_exactness import RandomDrafter, drafter_of
from tests.families import make_checkpoint

PROMPT = [7, 9, 7, 9, 7, 9, 11]
LENGTH = 40
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["first", "second"]}, "many": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["kind", "many"],
    "additionalProperties": False,
}
CONSTRAINTS = {
    "schema": Constraint(Grammar.JSON_SCHEMA, json.dumps(SCHEMA)),
    "regex": Constraint(Grammar.REGEX, "[a-z]{5,9}( and [a-z]{2,9}){2}"),
}


class Masked(LogitsProcessor):
    """The library's mask of the answer so far, found from its first token in every step."""

    def __init__(self, vocabulary: LLTokenizer, constraint: Constraint):
        make = {
            Grammar.JSON_SCHEMA: lambda text: LLMatcher.grammar_from_json_schema(
                text, overrides={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
            ),
            Grammar.REGEX: LLMatcher.grammar_from_regex,
        }[constraint.grammar]
        self._vocabulary, self._grammar = vocabulary, make(constraint.text)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        matcher = LLMatcher(self._vocabulary, self._grammar)
        assert matcher.consume_tokens(input_ids[0, len(PROMPT) :].tolist())
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
        return scores.masked_fill(torch.tensor(bits[: scores.shape[-1]] == 0), -torch.inf)


class Setting:
    """A server with constraints, and the truth of `generate`."""

    def __init__(self, directory):
        self.checkpoint = make_checkpoint(directory, "llama")
        self.tokenizer = load_tokenizer(self.checkpoint)
        self.end = self.tokenizer.eos_token_id
        vocab = LocalServer(self.checkpoint).vocab
        constrain = Grammars(self.tokenizer, vocab, {self.end})
        self._constrain = constrain
        self.server = self.new_server()
        self._vocabulary = LLTokenizer(self.tokenizer.backend_tokenizer.to_str(), n_vocab=vocab, eos_token=self.end)

    def new_server(self) -> LocalServer:
        """One that knows nothing of passes yet."""
        return LocalServer(self.checkpoint, frozenset({self.end}), constrain=self._constrain)

    def truth(self, constraint: Constraint) -> tuple[int, ...]:
        return self.server.generate(tuple(PROMPT), LENGTH, (self.end,), [Masked(self._vocabulary, constraint)])

    async def ask(self, drafter, settings: Settings):
        async with self.server.running(), self.server.converse(drafter) as conversation:
            return await conversation.answer(PROMPT, settings, lambda committed, provisional: None)


@pytest.fixture(scope="module")
def setting(tmp_path_factory) -> Setting:
    return Setting(tmp_path_factory.mktemp("constrained"))


def drafter_named(kind: str, setting: Setting):
    return {"none": lambda: None, "random": RandomDrafter, "lookup": LookupDrafter}.get(
        kind, lambda: drafter_of(kind, setting.checkpoint)
    )()


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("kind", ["none", "independent", "lookup", "random"])
async def test_greedy_answers_are_generates_under_the_same_masks(setting, kind, name):
    answer = await setting.ask(drafter_named(kind, setting), Settings(LENGTH, constraint=CONSTRAINTS[name]))
    assert answer.tokens == setting.truth(CONSTRAINTS[name])
    assert not answer.note


@pytest.mark.parametrize("rule", ["coupled", "speculative", "typical"])
async def test_sampled_answers_match_and_coupled_ones_are_plain_decoding(setting, rule):
    texts = set()
    for seed in range(4):
        sampling = Sampling(1.0, seed=seed)
        asked = Settings(120, rule, sampling=sampling, constraint=CONSTRAINTS["schema"])
        answer = await setting.ask(drafter_named("independent", setting), asked)
        if rule == "coupled":
            assert answer.tokens == (await setting.ask(None, asked)).tokens
        if answer.tokens[-1] == setting.end:
            texts.add(setting.tokenizer.decode(answer.tokens[:-1]))
    assert texts
    for text in texts:
        found = json.loads(text)
        assert found["kind"] in ("first", "second")
        assert all(isinstance(each, bool) for each in found["many"])


async def test_an_answer_that_another_server_goes_on_with_is_the_same(setting):
    """The stream breaks in mid-answer, and a server that has never seen it is given what is known."""
    constraint, constrain = CONSTRAINTS["regex"], setting.server._constrain
    limits = Limits("f", setting.server.vocab, CONTEXT, MAX_NODES, constrain)
    session = ClientSession("a session that moves", limits)
    other = LocalServer(setting.checkpoint, frozenset({setting.end}), constrain=constrain)
    opening = [session.open(PROMPT, Settings(LENGTH, constraint=constraint))]
    for server, enough in ((setting.server, 3), (other, LENGTH)):
        async with server.running():
            wire = Wire(server._engine)
            for message in opening:
                wire.send(message)
            while session.finished is None and len(session.answer) < enough:
                session.receive(await wire.receive())
            wire.close()
        if session.finished is None and enough < LENGTH:
            session.lost()
            opening = session.reopen()
    assert tuple(session.answer) == setting.truth(constraint)


LATE = "start: T\nT: /[a-z]{40}/ (" + " & ".join(f"/(.*a.{{{index}}}b.*)?/" for index in range(1, 24)) + ")"
"""Compiled in a millisecond; what may follow some 30 letters would take half a minute to find out."""


@pytest.mark.parametrize("kind", ["none", "independent"])
async def test_a_constraint_that_takes_too_long_in_mid_answer_ends_that_answer_alone(setting, kind):
    """Passes wait for what may follow, and so does a drafter."""
    began, server = time.process_time(), setting.server
    late, other = Constraint(Grammar.LARK, LATE), CONSTRAINTS["regex"]
    async with server.running(), server.converse(drafter_named(kind, setting)) as one, server.converse(None) as two:
        failed, answer = await asyncio.gather(
            one.answer(PROMPT, Settings(90, constraint=late), lambda *tokens: None),
            two.answer(PROMPT, Settings(LENGTH, constraint=other), lambda *tokens: None),
        )
    assert failed.failure.startswith("the constraint is too complex to go on with this answer")
    assert 0 < len(failed.tokens) < 40
    assert answer.tokens == setting.truth(other)
    assert time.process_time() - began < 10


async def test_forced_tokens_need_no_pass(setting):
    only = Constraint(Grammar.JSON_SCHEMA, json.dumps({"const": {"a": [1, 2, 3], "b": "the same text every time"}}))
    answer = await setting.ask(None, Settings(100, constraint=only))
    assert setting.tokenizer.decode(answer.tokens[:-1]) == '{"a": [1, 2, 3], "b": "the same text every time"}'
    assert answer.stats.passes == 1


async def test_a_drafter_that_knows_the_constraint_saves_passes(setting):
    """Against one of the same network that does not: what the target may not choose is not worth drafting."""
    asked = Settings(LENGTH, idle="lockstep", constraint=CONSTRAINTS["regex"])
    passes = []
    for knows in (True, False):
        # Neither when nodes come nor how many are worth their time in a pass depends on how busy a machine is or was.
        server = setting.new_server()
        async with server.running(lambda: 0.0):
            if not knows:
                server._constrain = lambda constraint: None  # which only its clients ask
            async with server.converse(drafter_named("independent", setting), LOCKSTEP) as conversation:
                answer = await conversation.answer(PROMPT, asked, lambda *tokens: None)
        assert answer.tokens == setting.truth(CONSTRAINTS["regex"])
        passes.append(answer.stats.passes)
    assert passes[0] < passes[1]


async def test_a_server_that_cannot_constrain_refuses_in_one_sentence(setting):
    plain = LocalServer(setting.checkpoint)
    plain._constrain = lambda constraint: None
    async with plain.running(), plain.converse(None) as conversation:
        with pytest.raises(ServerRefusedError, match="not supported"):
            await conversation.answer(PROMPT, Settings(9, constraint=CONSTRAINTS["regex"]), lambda *tokens: None)


async def test_penalties_and_bias_change_the_answer_and_no_drafter_does(setting):
    asked = [
        Sampling(presence_penalty=1.5),
        Sampling(frequency_penalty=0.6),
        Sampling(logit_bias=((40, 6.0), (41, -3.0))),
        LIKELIEST,
    ]
    answers = set()
    for sampling in asked:
        alone, drafted = [
            (await setting.ask(drafter_named(kind, setting), Settings(24, sampling=sampling))).tokens
            for kind in ("none", "independent")
        ]
        assert alone == drafted
        answers.add(alone)
    assert len(answers) == len(asked)
