"""The registry of draft kinds: what each is called, what it needs, and where its parts are found.

What may live here: facts about kinds, as plain data. It imports no torch and no module of any kind, so that a laptop
loads the code of the kind that it runs and no other.

The parts of a kind are found by its name, and imported when they are used:

- `common/drafters/NAME.py`: the drafter, and `load(config: DrafterConfig) -> DrafterFactory`;
- `common/draft_models/NAME.py`, for a kind on the target's tail: the network, and
  `read_facts(directory)`, which says what target it was made for;
- `training/draft_models/recipes/NAME.py`, for every kind with weights: `build(target, **options) -> Recipe`, and
  beside it `NAME_options.py` where `outrider-train NAME` has options of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from common.protocol.draft_state import FUSED, HIDDEN, LAST, LSA

KIND_KEY = "outrider_draft"
"""What names the kind in the config.json of a draft that is no complete model."""


class DraftParts(Enum):
    """What a draft of a kind consists of, which decides what is in its bundle and how a server checks it."""

    NONE = "none"
    """Nothing is loaded or trained; the bundle holds the target's tokenizer."""

    CAUSAL_LM = "causal LM"
    """A whole checkpoint, which must share the target's tokenizer."""

    ON_TAIL = "on tail"
    """A network that runs on the target's embedding, last layers and head: the bundle brings this tail."""


@dataclass(frozen=True, slots=True)
class DraftKind:
    """One kind of draft. `name` is what drafts' configurations, bundles and commands say; `title` says in a few words
    what is trained. `state` is the kind of draft state that it needs of every token (one of
    `common.protocol.draft_state.DIMENSIONS`), None for none. A draft of a kind that `runs_target_layers` is trained
    for one or several numbers of the target's last layers, its depths, and needs their K/V as well."""

    name: str
    title: str
    parts: DraftParts
    state: str | None = None
    runs_target_layers: bool = False


LOOKUP = "lookup"
"""The kind without a model under whose name every server offers what clients need for any such kind."""

DRAFT_KINDS: Mapping[str, DraftKind] = {
    kind.name: kind
    for kind in (
        DraftKind(
            "moa",
            "a Mixture of Attentions draft: it attends to states of all layers, and may run layers of the target",
            DraftParts.ON_TAIL,
            state=LSA,
            runs_target_layers=True,
        ),
        DraftKind(
            "eagle3", "an EAGLE-3 draft: one layer over hidden states of three target layers", DraftParts.ON_TAIL, FUSED
        ),
        DraftKind(
            "block",
            "a block draft: a Tandem draft that predicts many positions in one forward",
            DraftParts.ON_TAIL,
            FUSED,
        ),
        DraftKind(
            "dflash",
            "a DFlash draft: one forward over masked positions, with the target's hidden states in every layer",
            DraftParts.ON_TAIL,
            FUSED,
        ),
        DraftKind(
            "tandem",
            "a Tandem draft: a small decoder that attends to the target's hidden states, projected down",
            DraftParts.ON_TAIL,
            FUSED,
        ),
        DraftKind(
            "glide",
            "a GliDe draft: a small decoder that attends to the keys and values of the target's last layer",
            DraftParts.ON_TAIL,
            LAST,
        ),
        DraftKind("eagle", "an EAGLE draft: one layer over the target's last hidden state", DraftParts.ON_TAIL, HIDDEN),
        DraftKind(
            "clover",
            "Clover's recurrent head: it reads the target's last hidden state and the path",
            DraftParts.ON_TAIL,
            HIDDEN,
        ),
        DraftKind(
            "hydra", "Hydra heads: they read the target's last hidden state and the path", DraftParts.ON_TAIL, HIDDEN
        ),
        DraftKind("medusa", "Medusa heads: they read the target's last hidden state", DraftParts.ON_TAIL, HIDDEN),
        DraftKind("independent", "a small model of its own, distilled from the target", DraftParts.CAUSAL_LM),
        DraftKind("lookahead", "nothing", DraftParts.NONE),
        DraftKind("ouroboros", "nothing", DraftParts.NONE),
        DraftKind(LOOKUP, "nothing", DraftParts.NONE),
    )
}
"""By name. A shipped family offers its draft models in this order; for any other target the options `--draft` of the
operator give the order. A client that names no draft takes the first one with weights (`choose_bundle`)."""

TRAINED_KINDS = tuple(kind for kind in DRAFT_KINDS.values() if kind.parts is not DraftParts.NONE)
"""Those with weights, in the same order; also the names of the folders beside a shipped target."""

STATELESS_KINDS = tuple(kind.name for kind in DRAFT_KINDS.values() if kind.parts is DraftParts.NONE)
"""Those without weights, which cost next to nothing and may draft beside any other: `moa+lookup`. Beside a target
without draft models the first of them drafts."""
