"""Server drafters: the weights of a draft model loaded once, and for each session a drafter that gets its draft state
without a link.

Blocking torch code, called from the drafting worker's thread. It may not know sessions, streams or passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.draft_kinds import STATELESS_KINDS
from common.draft_models.memory import needed_bytes, read_headers
from common.draft_models.weight_files import draft_weight_files
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.drafters.load import DrafterConfig, DrafterFactory, load_draft_model
from common.protocol.draft_state import StateKind
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.views import Proposal, TreeView
from common.weight_only.modes import AS_IS
from common.weight_only.needs import number_bytes
from server.models.draft_models import DraftModel
from server.passes.state_export import ExportRequest
from server.passes.state_maker import StateMaker

_DTYPE = "float16"  # of state that never leaves the machine
SERVER_TREE = Expansion(breadth=8, children=8, nodes=256, least_probability=0.01, draws_once=True)


@dataclass(frozen=True, slots=True)
class DrafterPlacement:
    """What drafters run on, and the dimensions of their target."""

    device: str
    dtype: str
    context: int
    vocab_size: int


class StateFedDrafter:
    """A drafter, and how much of its session's draft state it has been given."""

    def __init__(self, drafter: Drafter, maker: StateMaker):
        self._drafter = drafter
        self._maker = maker
        self._kinds = () if drafter.state is None else tuple(maker.kinds(drafter.state))
        self._tokens: tuple[int, ...] = ()
        self._held = 0  # leading positions whose state was given

    def draft(self, view: TreeView, slots: np.ndarray) -> Sequence[Proposal]:
        if view.tokens[: len(self._tokens)] != self._tokens:
            self._held = min(self._held, common_prefix(self._tokens, view.tokens))
        self._tokens = view.tokens
        return self._drafter.draft(view, self._states(slots))

    def _states(self, slots: np.ndarray) -> list[State]:
        request, start, count = self._drafter.state, self._held, len(slots) - self._held
        if request is None or count <= 0:
            return []
        self._held = len(slots)
        payloads = self._maker.make([ExportRequest(request, kind.name, slots[start:]) for kind in self._kinds])
        return [
            _frame(start, count, kind, payload)
            for kind, payload in zip(self._kinds, payloads, strict=True)
            if payload is not None
        ]


class StateFedDrafterFactory:
    def __init__(self, drafts: Sequence[DraftModel], maker: StateMaker, site: DrafterPlacement):
        """The first of `drafts` serves the sessions that ask for none of them."""
        self._drafts: Mapping[str, DraftModel] = {draft.name: draft for draft in drafts}
        self._default = drafts[0]
        self._maker = maker
        self._site = site
        self._loaded: dict[tuple[str, int], DrafterFactory] = {}

    @property
    def weights_bytes(self) -> int:
        """Of all drafts at all depths: each is loaded for the first session that drafts with it, and stays. The copy of
        the head that some CPUs compute with is left out."""
        width, total = number_bytes(self._site.dtype), 0
        for draft in self._drafts.values():
            if draft.kind.name not in STATELESS_KINDS:
                tail = draft_weight_files(draft.tail) if draft.tail else ()
                headers = read_headers(draft_weight_files(draft.directory), tail)
                total += sum(needed_bytes(headers, draft.kind.name, depth, AS_IS, width) for depth in draft.depths)
        return total

    def make(self, state_request: StateRequest | None) -> StateFedDrafter:
        draft = self._drafts.get(state_request.draft, self._default) if state_request is not None else self._default
        # Layers that the client can wait for are not what it drafts with now.
        runs_layers = state_request is not None and not state_request.later and state_request.layers in draft.depths
        depth = state_request.layers if state_request is not None and runs_layers else min(draft.depths)
        if (draft.name, depth) not in self._loaded:
            self._loaded[draft.name, depth] = self._load(draft, depth)
        return StateFedDrafter(self._loaded[draft.name, depth](), self._maker)

    def _load(self, draft: DraftModel, depth: int) -> DrafterFactory:
        site, request = self._site, StateRequest(draft.name, depth, _DTYPE)
        where = (draft.directory, site.device, site.dtype, site.context, site.vocab_size, request)
        return load_draft_model(draft.kind.name, DrafterConfig(*where, SERVER_TREE, tail=draft.tail))


def _frame(start: int, count: int, kind: StateKind, payload: bytes) -> State:
    return State(0, start, count, kind.name, _DTYPE, (count, *kind.shape), payload)
