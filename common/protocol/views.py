"""The input and output of a drafter: a view of a session, and proposals. Immutable, so that a drafter may run in
another thread than its session."""

from dataclasses import dataclass
from typing import NamedTuple

from common.protocol.messages import Draw
from common.protocol.sampling import LIKELIEST, Sampling


class NodeView(NamedTuple):
    """A live node as a drafter sees it; `parent` is 0 where it hangs from the root.

    A tuple, as creating one is fast, and every level creates all of them anew.
    """

    id: int
    parent: int
    token: int
    position: int
    logp: float  # cumulative from the root


@dataclass(frozen=True, slots=True)
class TreeView:
    """A snapshot of the committed sequence and the live nodes, parents first, and how the target will choose: by
    `rule`, from logits that `sampling` has processed. While a drafter writes `alone`, no target verifies: the last
    `provisional` tokens of the sequence are the drafter's own, or private, and no target has seen them."""

    tokens: tuple[int, ...]
    nodes: tuple[NodeView, ...]
    rule: str = "greedy"
    sampling: Sampling = LIKELIEST
    alone: bool = False
    provisional: int = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A token that a drafter proposes below `parent`.

    `parent` is a node id of the view that was drafted from, 0 for that view's root, or -k for the k-th proposal
    (from 1) of the same list. `logp` and `draw` are as in `GrownNode`; sampled siblings follow one another.
    """

    parent: int
    token: int
    logp: float
    draw: Draw | None = None
