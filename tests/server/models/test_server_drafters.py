"""The server's own drafters: the draft that a session gets, the state it receives, and answers that stay exact."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from safetensors.torch import load_file

from common.codec import decode
from common.drafters.best_first import Expansion
from common.protocol.client_session import ClientSession, Limits
from common.protocol.messages import Settings, State, StateRequest
from common.protocol.views import Proposal, TreeView
from server.engine import Engine
from server.models.draft_models import load_exporters
from server.models.offer import make_offer
from server.models.server_drafters import DrafterPlacement, StateFedDrafter, StateFedDrafterFactory
from server.models.target_loader import load_target
from server.options import Pace, SessionOptions
from server.passes.state_maker import StateMaker
from server.sessions.sessions import ServingLimits, Sessions
from tests.drafts import (
    make_block_draft,
    make_clover_draft,
    make_eagle_draft,
    make_hydra_draft,
    make_medusa_draft,
    make_moa_draft,
)
from tests.server.client_turn import EngineWire, play
from tests.server.passes.test_state_maker import POISON, POOL, SlotNumbers
from tests.server.proposers import nothing
from tests.server.reference import Reference

CAPACITY = 4096
TOKENS = 30
REQUEST = StateRequest("moa", 3, "float16")


class Listener:
    """A drafter that records the state that it receives."""

    kind = "listener"
    state: StateRequest | None = REQUEST
    expansion = Expansion()

    def __init__(self) -> None:
        self.views: list[TreeView] = []
        self.last_state_claim: list[Sequence[State]] = []

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self.views.append(view)
        self.last_state_claim.append(states)
        return [Proposal(0, 9, -0.1)]

    def slots(self, level: int, kind: str) -> list[tuple[int, list[int]]]:
        """Of each frame of a level: its first position, and the slots from which its states were made."""
        frames = [state for state in self.last_state_claim[level] if state.kind == kind]
        for state in frames:
            assert (state.count, state.dtype) == (state.shape[0], REQUEST.dtype)
        decoded = [decode(state.payload, state.dtype, state.shape) for state in frames]
        return [
            (state.start, rows.reshape(state.count, -1)[:, 0].int().tolist())
            for state, rows in zip(frames, decoded, strict=True)
        ]


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def drafter(listener: Listener) -> StateFedDrafter:
    exporters = {("moa", 3): [SlotNumbers("lsa", 4), SlotNumbers("kv", 6)]}
    return StateFedDrafter(listener, StateMaker(POOL, exporters))


def test_a_server_drafter_is_fed_each_position_once_in_every_kind_of_its_state(
    drafter: StateFedDrafter, listener: Listener
) -> None:
    view = TreeView((1, 2, 3, 4), ())
    assert drafter.draft(view, np.array([5, 3, 8])) == [Proposal(0, 9, -0.1)]
    drafter.draft(view, np.array([5, 3, 8]))
    drafter.draft(TreeView((1, 2, 3, 4, 5, 6), ()), np.array([5, 3, 8, 2, 7]))
    for kind in ("lsa", "kv"):
        fed = [listener.slots(level, kind) for level in range(3)]
        assert fed == [[(0, [5, 3, 8])], [], [(3, [2, 7])]]
    assert [len(view.tokens) for view in listener.views] == [4, 4, 6]


@pytest.mark.parametrize(
    ("rewritten", "slots", "fed"),
    [
        ((1, 2, 9, 9, 9), [5, 3, 11, 12], [(2, [11, 12])]),
        ((7,), [], []),
        ((7, 2), [10], [(0, [10])]),
        ((1, 2, 3, 4, 9), [5, 3, 8, 10], [(3, [10])]),
        ((1, 2), [5], []),
    ],
    ids=["from the third", "all but nothing is processed", "from the first", "behind its end", "only cut"],
)
def test_where_history_was_rewritten_it_is_fed_again_from_there(
    drafter: StateFedDrafter,
    listener: Listener,
    rewritten: tuple[int, ...],
    slots: list[int],
    fed: list[tuple[int, list[int]]],
) -> None:
    drafter.draft(TreeView((1, 2, 3, 4), ()), np.array([5, 3, 8]))
    drafter.draft(TreeView(rewritten, ()), np.array(slots, dtype=int))
    assert listener.slots(1, "lsa") == fed


def test_what_was_cut_is_fed_again_once_it_comes_back(drafter: StateFedDrafter, listener: Listener) -> None:
    """The history was cut at 2 and continued differently before the next level."""
    drafter.draft(TreeView((1, 2, 3, 4), ()), np.array([5, 3, 8]))
    drafter.draft(TreeView((1, 2), ()), np.array([5]))
    drafter.draft(TreeView((1, 2, 9, 4), ()), np.array([5, 3, 11]))
    assert [start for start, _ in listener.slots(2, "lsa")] == [2]


def test_state_that_cannot_be_made_is_left_out(drafter: StateFedDrafter, listener: Listener) -> None:
    assert drafter.draft(TreeView((1, 2, 3), ()), np.array([5, POISON])) == [Proposal(0, 9, -0.1)]
    assert listener.last_state_claim == [[]]


def test_a_drafter_without_state_is_fed_none(listener: Listener) -> None:
    listener.state = None
    drafter = StateFedDrafter(listener, StateMaker(POOL, {}))
    drafter.draft(TreeView((1, 2, 3, 4), ()), np.array([5, 3, 8]))
    assert listener.last_state_claim == [[]]


# Real drafts.

MAKERS = {
    "moa": make_moa_draft,
    "block": make_block_draft,
    "eagle": make_eagle_draft,
    "clover": make_clover_draft,
    "hydra": make_hydra_draft,
    "medusa": make_medusa_draft,
}


@pytest.fixture(scope="session")
def drafts(tmp_path_factory: pytest.TempPathFactory, target: Path, draft: Path) -> dict[str, Path]:
    """One of each kind for the target."""
    where = tmp_path_factory.mktemp("drafts")
    return {"small": draft} | {kind: make(where / kind, target) for kind, make in MAKERS.items()}


def with_server_drafters(target: Path, drafts: Sequence[Path]) -> tuple[Engine, StateFedDrafterFactory, Limits]:
    offer = make_offer(str(target), tuple(map(str, drafts)))
    loaded = load_target(
        str(target), device="cpu", dtype="float64", capacity=CAPACITY, threads=1, keep_hidden=offer.needs_hidden
    )
    maker = StateMaker(loaded.model.pool, load_exporters(offer.draft_models, loaded.model))
    terms = offer.terms(SessionOptions("assist", 128, 64, 16, Pace()), CAPACITY, maker.kinds)
    drafter_factory = StateFedDrafterFactory(
        offer.draft_models, maker, DrafterPlacement("cpu", "float64", terms.context, terms.vocab_size)
    )
    engine = Engine(Sessions(terms, ServingLimits(16, 64), CAPACITY), loaded, Pace(), maker, drafter_factory)
    return engine, drafter_factory, Limits(terms.fingerprint, terms.vocab_size, terms.context, terms.max_nodes)


@pytest.mark.parametrize(
    "kinds",
    [["moa"], ["block"], ["eagle"], ["clover"], ["hydra"], ["medusa"], ["small"], []],
    ids=lambda kinds: str(*kinds),
)
async def test_with_every_kind_of_draft_beside_it_the_target_says_what_it_says_alone(
    kinds: list[str], target: Path, drafts: dict[str, Path], reference: Callable[[str], Reference]
) -> None:
    engine, drafter_factory, limits = with_server_drafters(target, [drafts[kind] for kind in kinds])
    drafter_factory.make(None)  # loaded now, or the answers could be whole before it is
    running = asyncio.create_task(engine.run())
    client, wire = ClientSession(uuid4().hex, limits), EngineWire(engine)
    opening = client.open([7, 9, 7, 9, 7, 9, 11], Settings(TOKENS, idle="assist"))
    for _ in range(2):
        prompt = list(client.tree.tokens)
        truth = reference("llama").answer(prompt, TOKENS)
        assert await asyncio.wait_for(play(client, wire, opening, nothing), 30) == truth
        # The next turn rewrites the end of this one.
        opening = client.extend(len(client.tree.tokens) - 5, [30, 31, 32], Settings(TOKENS, idle="assist"))
    assert engine.counters.assisted_levels > 0
    assert engine.counters.recomputed_tokens == 0
    running.cancel()


def test_a_session_is_helped_by_the_draft_that_it_runs_itself_and_else_by_the_first(
    target: Path, drafts: dict[str, Path]
) -> None:
    _, drafter_factory, _ = with_server_drafters(target, [drafts["eagle"], drafts["moa"]])
    cases = [
        (None, ("eagle", 0)),
        (StateRequest("moa", 3, "int8"), ("moa", 3)),
        (StateRequest("moa", 1, "int8"), ("moa", 1)),
        (StateRequest("moa", 2, "int8"), ("moa", 0)),
        (StateRequest("nobody's", 1, "int8"), ("eagle", 0)),
    ]
    for state_request, (draft, layers) in cases:
        state = drafter_factory.make(state_request)._drafter.state
        assert state is not None
        assert (state.draft, state.layers) == (draft, layers)


def test_one_sessions_server_drafter_knows_nothing_of_another_s(target: Path, drafts: dict[str, Path]) -> None:
    """They share only weights."""
    _, drafter_factory, _ = with_server_drafters(target, [drafts["small"]])
    one, other, fresh = (drafter_factory.make(None) for _ in range(3))
    slots = np.arange(0)
    one.draft(TreeView((5, 6, 7), ()), slots)
    assert other.draft(TreeView((50, 60, 70, 80, 90), ()), slots)
    proposed, expected = (drafter.draft(TreeView((5, 6, 7, 8), ()), slots) for drafter in (one, fresh))
    assert [each.token for each in proposed] == [each.token for each in expected]
    assert [each.logp for each in proposed] == pytest.approx([each.logp for each in expected])


def test_weights_of_all_drafts_at_all_depths_are_counted_before_any_is_loaded(
    target: Path, drafts: dict[str, Path]
) -> None:
    _, drafter_factory, _ = with_server_drafters(target, [drafts["small"], drafts["moa"]])
    tail = make_offer(str(target), (str(drafts["moa"]),)).draft_models[0].tail
    assert tail is not None
    held = numbers_in(drafts["small"], lambda _: True)
    for depth in (0, 1, 3):
        held += numbers_in(drafts["moa"], lambda name, depth=depth: name.startswith(f"{depth}."))
        held += numbers_in(tail, lambda name, depth=depth: ".layers." not in name or layer_of(name) >= 3 - depth)
    assert drafter_factory.weights_bytes == 8 * held


def numbers_in(directory: Path, is_held: Callable[[str], bool]) -> int:
    weights = load_file(directory / "model.safetensors")
    return sum(tensor.numel() for name, tensor in weights.items() if is_held(name))


def layer_of(name: str) -> int:
    return int(name.partition(".layers.")[2].partition(".")[0])
