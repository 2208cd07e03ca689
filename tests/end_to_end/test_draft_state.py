"""Answers stay exact with drafts that need the target's state: all of it arrives, parts of it, or corrupt data."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from common.drafters.best_first import Expansion
from common.drafters.deepening import DeepeningDrafter
from common.drafters.drafter import Drafter
from common.drafters.load import DrafterConfig, load_drafter
from common.protocol.messages import Settings, State, StateRequest
from common.protocol.views import Proposal, TreeView
from server.models.bundles import write_bundle
from server.models.offer import make_offer
from tests.drafts import (
    make_block_draft,
    make_dflash_draft,
    make_eagle_draft,
    make_glide_draft,
    make_medusa_draft,
    make_moa_draft,
    make_tandem_draft,
)
from tests.end_to_end.in_memory import CONTEXT, LocalServer
from tests.families import FAMILIES, make_checkpoint

VOCAB = 300
LENGTH = 16
PROMPTS = [[7, 9, 7, 9, 7, 9, 11], list(range(40, 100))]
SYSTEMS = [
    ("moa", 0),
    ("moa", 1),
    ("moa", 3),
    ("block", 0),
    ("dflash", 0),
    ("tandem", 0),
    ("glide", 0),
    ("eagle", 0),
    ("medusa", 0),
]

# Every kind meets every family where eight clients ask at once.
ONE_FAMILY_EACH = [(FAMILIES[at % 4], *system) for at, system in enumerate(SYSTEMS)]
# One of both has sliding windows, which keep another past.
TWO_FAMILIES_EACH = [(FAMILIES[(at + more) % 4], *system) for at, system in enumerate(SYSTEMS) for more in (0, 1)]


@dataclass(frozen=True)
class Served:
    local_server: LocalServer
    bundles: dict[str, Path]

    def drafter(self, kind: str, layers: int, dtype: str = "int8") -> Drafter:
        request = StateRequest(kind, layers, dtype)
        expansion = Expansion(least_probability=1e-6, nodes=24)
        return load_drafter(
            kind, DrafterConfig(self.bundles[kind], "cpu", "float64", CONTEXT, VOCAB, request, expansion)
        )


@dataclass
class Gappy:
    """Withholds whole frames and parts of frames from a drafter, and delivers some twice. `turns`: of all that came."""

    drafter: Drafter
    seed: int
    loss: float = 0.4
    arrived: list[State] = field(default_factory=list)
    turns: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kind, self.state, self.expansion = self.drafter.kind, self.drafter.state, self.drafter.expansion
        self._random = random.Random(self.seed)

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self.turns |= {state.turn for state in states}
        kept = [state for state in states if self._random.random() >= self.loss]
        if kept and self._random.random() < self.loss:
            kept.append(kept[0])
        if kept and self._random.random() < self.loss:
            kept[-1] = replace(kept[-1], count=1)
        self.arrived += kept
        self.drafter.expansion = self.expansion
        return self.drafter.draft(view, kept)


@pytest.fixture(scope="module", params=FAMILIES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    name = request.param
    where = tmp_path_factory.mktemp(name)
    tied, sharded = name in ("llama", "qwen3"), name in ("mistral", "qwen3")
    target = make_checkpoint(where / "target", name, tied=tied, sharded=sharded, vocab=VOCAB)
    makers = {
        "moa": make_moa_draft,
        "block": make_block_draft,
        "dflash": make_dflash_draft,
        "tandem": make_tandem_draft,
        "glide": make_glide_draft,
        "eagle": make_eagle_draft,
        "medusa": make_medusa_draft,
    }
    drafts = [make(where / kind, target) for kind, make in makers.items()]
    offer = make_offer(str(target), tuple(map(str, drafts)))
    for bundle in offer.drafts:
        write_bundle(bundle, offer.card, where / "bundles" / bundle.manifest.draft)
    bundles = {bundle.manifest.draft: where / "bundles" / bundle.manifest.draft for bundle in offer.drafts}
    return Served(LocalServer(target, drafts=offer.draft_models), bundles)


async def ask(served: Served, drafter: Drafter, prompt: list[int], idle: str = "eager", length: int = LENGTH):
    async with served.local_server.converse(drafter) as conversation:
        return await conversation.answer(prompt, Settings(length, idle=idle), lambda committed, provisional: None)


@pytest.mark.parametrize(("served", "kind", "layers"), ONE_FAMILY_EACH, indirect=["served"])
async def test_greedy_answers_are_the_targets_own(served: Served, kind: str, layers: int) -> None:
    drafter = served.drafter(kind, layers)
    async with served.local_server.running():
        for prompt, loss, idle in zip(PROMPTS, (0.0, 0.5), ("eager", "patient"), strict=True):
            gappy = Gappy(drafter, layers, loss)
            answer = await ask(served, gappy, prompt, idle)
            assert not answer.note
            assert answer.tokens == served.local_server.truth(prompt, LENGTH)
            assert gappy.arrived
    assert served.local_server.counters.recomputed_tokens == 0
    assert served.local_server.sessions.free_slots == 4096


async def test_without_any_state_answers_are_the_targets_own(served: Served) -> None:
    async with served.local_server.running():
        for kind, layers in SYSTEMS[1:]:
            answer = await ask(served, Gappy(served.drafter(kind, layers), 0, loss=1.0), PROMPTS[0])
            assert not answer.note
            assert answer.tokens == served.local_server.truth(PROMPTS[0], LENGTH)


async def test_layers_that_wait_for_an_outage_come_behind_all_else_and_then_write_alone(served: Served) -> None:
    near, far, alone = (served.drafter("moa", layers) for layers in (0, 3, 3))
    drafter = Gappy(DeepeningDrafter(near, far, StateRequest("moa", 3, later=True)), 0, loss=0.0)  # type: ignore[arg-type]
    async with served.local_server.running():
        answer = await ask(served, drafter, PROMPTS[1])
    assert not answer.note
    assert answer.tokens == served.local_server.truth(PROMPTS[1], LENGTH)
    arrivals = [state.kind for state in drafter.arrived]
    assert arrivals.index("lsa") < arrivals.index("kv")
    known = tuple((*PROMPTS[1], *answer.tokens)[: max(state.start + state.count for state in drafter.arrived)])
    view = TreeView(known, (), alone=True)
    alone.expansion = drafter.expansion = near.expansion = Expansion(breadth=1, nodes=1, least_probability=1e-9)
    (expected,) = alone.draft(view, drafter.arrived)
    (found,) = drafter.draft(view)
    assert (found.token, found.logp) == (expected.token, pytest.approx(expected.logp))
    assert found != near.draft(view)[0]


@pytest.mark.parametrize(("served", "kind", "layers"), TWO_FAMILIES_EACH, indirect=["served"])
async def test_turns_of_one_session_keep_their_past(served: Served, kind: str, layers: int) -> None:
    drafter = Gappy(served.drafter(kind, layers, "float16"), 5, loss=0.2)
    async with served.local_server.running(), served.local_server.converse(drafter) as conversation:
        sequence: list[int] = []
        settings = Settings(12, idle="lockstep")
        for more in ([5, 6, 7], [8, 9], [10]):
            sequence += more
            answer = await conversation.answer(sequence, settings, lambda committed, provisional: None)
            assert not answer.note
            assert answer.tokens == served.local_server.truth(sequence, 12)
            sequence += answer.tokens
        rewritten = [*sequence[:20], 1, 2, 3]
        answer = await conversation.answer(rewritten, settings, lambda committed, provisional: None)
        assert not answer.note
        assert answer.tokens == served.local_server.truth(rewritten, 12)
    assert drafter.turns == {0, 1, 2, 3}
    assert served.local_server.counters.recomputed_tokens == 0


async def test_eight_clients_together_are_each_exact(served: Served) -> None:
    draw = random.Random(3)
    prompts = [[draw.randrange(VOCAB) for _ in range(draw.randint(3, 120))] for _ in range(8)]
    systems = SYSTEMS[1:]
    assert len(systems) == len(prompts)
    drafters = [Gappy(served.drafter(*system), index, loss=0.1 * (index % 3)) for index, system in enumerate(systems)]
    async with served.local_server.running():
        asked = [ask(served, drafter, prompt, length=24) for drafter, prompt in zip(drafters, prompts, strict=True)]
        answers = await asyncio.gather(*asked)
    assert not any(answer.note for answer in answers)
    assert [answer.tokens for answer in answers] == [served.local_server.truth(prompt, 24) for prompt in prompts]
    assert all(drafter.arrived for drafter in drafters)
    assert served.local_server.counters.recomputed_tokens == 0


async def test_corrupt_state_costs_the_drafter_and_no_token(served: Served) -> None:
    class Corrupting(Gappy):
        def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
            return self.drafter.draft(view, [replace(state, payload=b"no state") for state in states])

    async with served.local_server.running():
        answer = await ask(served, Corrupting(served.drafter("moa", 1), 0), PROMPTS[1], "patient")
    assert answer.tokens == served.local_server.truth(PROMPTS[1], LENGTH)
    assert "corrupt" in answer.note
