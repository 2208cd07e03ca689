"""The input and output of a drafter: a view of a session, and proposals. Immutable, so that a drafter may run in
another thread than its session."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from common.integers import Integers
from common.protocol.constraint import AnswerConstraint
from common.protocol.messages import Draw, Settings
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


@dataclass(frozen=True, eq=False, slots=True)
class TargetChoices:
    """The likeliest token behind each row of a pass, whatever the rule took. Row 0 is the root, the last of `frontier`
    tokens; the others are nodes, parents first. `parents` are rows, -1 for the root's."""

    frontier: int
    tokens: Integers
    parents: Integers
    choices: Sequence[int]

    def by_path(self) -> dict[tuple[int, ...], int]:
        """The choice behind each row, by the tokens from the root, which is left out, to that row."""
        paths: list[tuple[int, ...]] = [()]
        for token, parent in zip(list(self.tokens)[1:], list(self.parents)[1:], strict=True):
            paths.append((*paths[parent], int(token)))
        return dict(zip(paths, self.choices, strict=True))


@dataclass(frozen=True, slots=True)
class TreeView:
    """A snapshot of the committed sequence and the live nodes, parents first, and how the target will choose: by
    `rule`, from logits that `sampling` has processed, among the tokens that `constraint` allows in the answer, which
    begins at position `prompt_length`. While a drafter writes `alone`, no target verifies: the last
    `provisional` tokens of the sequence are the drafter's own, or private, and no target has seen them. `unjudged`: nor
    will any, so that what is drafted is the answer and no guess at it. `choices` are those of the last pass for a
    drafter beside the target; no message carries them to a client."""

    tokens: tuple[int, ...]
    nodes: tuple[NodeView, ...]
    rule: str = "greedy"
    sampling: Sampling = LIKELIEST
    alone: bool = False
    provisional: int = 0
    unjudged: bool = False
    prompt_length: int = 0
    constraint: AnswerConstraint | None = None
    choices: TargetChoices | None = None

    @property
    def verified_length(self) -> int:
        """How many tokens of the sequence, the first, a target has seen."""
        return len(self.tokens) - self.provisional

    @property
    def paths(self) -> dict[int, tuple[int, ...]]:
        """The tokens from the root, which is left out, to each node by id; the root's own path, by 0, is empty."""
        paths: dict[int, tuple[int, ...]] = {0: ()}
        for node in self.nodes:
            paths[node.id] = (*paths[node.parent], node.token)
        return paths

    def drafted_for(self, settings: Settings, prompt_length: int, constraint: AnswerConstraint | None = None) -> Self:
        """The same view of an answer that is decoded by these settings."""
        return replace(
            self,
            rule=settings.rule,
            sampling=settings.sampling,
            prompt_length=prompt_length,
            constraint=constraint,
        )


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

    def parent_id(self, first_id: int) -> int:
        """The parent's node id, once the proposals of the list have ids in turn from `first_id` on."""
        return self.parent if self.parent >= 0 else first_id - 1 - self.parent
