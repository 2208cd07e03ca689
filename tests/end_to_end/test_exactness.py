"""Answers equal the target's own token for token: every family, every drafter, both idle policies, one client and many,
several turns."""

import asyncio
import random
from collections.abc import Sequence

import pytest
import torch

from client.drafting.policies import LOCKSTEP, STREAM
from common.drafters.best_first import Expansion
from common.drafters.independent import IndependentNetwork
from common.drafters.lookahead import LookaheadDrafter
from common.drafters.lookup import LookupDrafter
from common.drafters.ouroboros import OuroborosDrafter
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.messages import Settings, State
from common.protocol.views import Proposal, TreeView
from tests.end_to_end.in_memory import LocalServer
from tests.families import FAMILIES, make_checkpoint

VOCAB = 300
LENGTH = 16
PROMPTS = [[7, 9, 7, 9, 7, 9, 11], list(range(40, 75))]


class RandomDrafter:
    """Proposes random tokens at random nodes."""

    kind = "random"
    state = None
    expansion = Expansion()

    def __init__(self, seed: int = 0):
        self._random = random.Random(seed)

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        parents = [0, *(node.id for node in view.nodes)]
        draw = self._random
        return [Proposal(draw.choice(parents), draw.randrange(VOCAB), -draw.random()) for _ in range(3)]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """A server for the family, and the checkpoint of a draft model that often agrees with its target."""
    name = request.param
    where = tmp_path_factory.mktemp(name)
    tied, sharded = name in ("llama", "qwen3"), name in ("mistral", "qwen3")
    target = make_checkpoint(where / "target", name, tied=tied, sharded=sharded, vocab=VOCAB)
    return LocalServer(target), target


def drafter_of(kind, checkpoint):
    if kind == "lookup":
        return LookupDrafter()
    if kind == "random":
        return RandomDrafter()
    model = PackedModel(load_causal_lm(checkpoint, dtype=torch.float64), 1024)
    return TreeDrafter(IndependentNetwork(model, VOCAB), Expansion(least_probability=1e-6, nodes=48))


async def ask(local_server, drafter, prompt, idle, length=LENGTH, policy=STREAM):
    async with local_server.converse(drafter, policy) as conversation:
        return await conversation.answer(prompt, Settings(length, idle=idle), lambda committed, provisional: None)


@pytest.mark.parametrize("idle", ["eager", "patient"])
@pytest.mark.parametrize("kind", ["independent", "lookup", "random"])
async def test_greedy_answers_are_the_targets_own(family, kind, idle):
    local_server, checkpoint = family
    drafter = drafter_of(kind, checkpoint)
    async with local_server.running():
        for prompt in PROMPTS:
            answer = await ask(local_server, drafter, prompt, idle)
            assert answer.tokens == local_server.truth(prompt, LENGTH)
            assert not answer.note
    assert local_server.counters.recomputed_tokens == 0
    assert local_server.sessions.free_slots == 4096


async def test_a_good_draft_saves_passes(family):
    """Does not depend on the machine's load: lock-step rounds wait for each tree, and on a clock that stands still
    every node is worth its pass."""
    _, checkpoint = family
    local_server = LocalServer(checkpoint)
    async with local_server.running(clock=lambda: 0.0):
        drafter = drafter_of("independent", checkpoint)
        answer = await ask(local_server, drafter, PROMPTS[1], "lockstep", policy=LOCKSTEP)
    assert answer.stats.accept_length > 1.5


async def test_eight_clients_together_are_each_exact_and_share_passes(family):
    local_server, _ = family
    draw = random.Random(3)
    prompts = [[draw.randrange(VOCAB) for _ in range(draw.randint(3, 120))] for _ in range(8)]
    before = local_server.counters.passes, local_server.counters.session_passes
    async with local_server.running():
        without_weights = (LookupDrafter, LookaheadDrafter, OuroborosDrafter)
        drafters = [without_weights[i % 3]() if i % 2 else RandomDrafter(i) for i in range(8)]
        asked = [
            ask(local_server, drafter, prompt, "eager", 24) for drafter, prompt in zip(drafters, prompts, strict=True)
        ]
        answers = await asyncio.gather(*asked)
    assert [answer.tokens for answer in answers] == [local_server.truth(prompt, 24) for prompt in prompts]
    passes = local_server.counters.passes - before[0]
    assert (local_server.counters.session_passes - before[1]) / passes > 2
    assert local_server.counters.recomputed_tokens == 0


async def test_turns_of_one_session_keep_their_past(family):
    local_server, checkpoint = family
    drafter = drafter_of("independent", checkpoint)
    async with local_server.running(), local_server.converse(drafter) as conversation:
        sequence: list[int] = []
        for more in ([5, 6, 7], [8, 9], [10]):
            sequence += more
            answer = await conversation.answer(sequence, Settings(12), lambda committed, provisional: None)
            assert answer.tokens == local_server.truth(sequence, 12)
            sequence += answer.tokens
        rewritten = [*sequence[:20], 1, 2, 3]
        answer = await conversation.answer(rewritten, Settings(12), lambda committed, provisional: None)
        assert answer.tokens == local_server.truth(rewritten, 12)
    assert local_server.counters.recomputed_tokens == 0


async def test_an_end_token_ends_the_answer_where_generate_ends_it(tmp_path):
    checkpoint = make_checkpoint(tmp_path, "llama", vocab=VOCAB)
    unlimited = LocalServer(checkpoint).truth(PROMPTS[0], LENGTH)
    end = unlimited[LENGTH // 2]
    local_server = LocalServer(checkpoint, frozenset({end}))
    async with local_server.running():
        answer = await ask(local_server, drafter_of("independent", checkpoint), PROMPTS[0], "eager")
    assert answer.tokens == local_server.truth(PROMPTS[0], LENGTH, [end])
    assert answer.finish_reason == "stop"
