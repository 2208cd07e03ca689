"""Several drafters in one tree (SpecInfer, Miao et al. 2024, arXiv 2305.09781, merges trees of several models): each
proposes from the same view, and what two of them propose is one node.

What may live here: which proposals are taken, and who proposed what was committed. It may not know any kind, nor how a
drafter computes.

Under a rule with drawn siblings the children of a node come from one drafter, the first that proposes any: they are
judged as one group, against the distribution that they were drawn from. Which drafter that is depends on the path to
the node, never on what was drawn below it, so that the target's distribution stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from common.drafters.best_first import Expansion, scores
from common.drafters.drafter import Drafter
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.rules import RULES
from common.protocol.views import Proposal, TreeView

_GUESTS_SHARE = 0.25
"""Of the tree's nodes that may come from other members than the first. A drafter that copies proposes long chains, and
takes the room of levels that the first has yet to draft; docs/log.md has a comparison."""

Path = tuple[int, ...]
"""The tokens of the sequence, or behind it, that lead to a node, its own included."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A proposal by the tokens behind the root; `logp` is cumulative from there."""

    path: Path
    logp: float
    proposal: Proposal
    member: int


class MergedDrafter:
    """`members` are in the order in which they may propose where only one of them can. One at most needs draft state,
    which all get. The first has most of the tree, and writes alone where no target verifies. `committed` counts, for
    each, the committed tokens that it proposed."""

    def __init__(self, members: Sequence[Drafter]):
        self.kind = "+".join(member.kind for member in members)
        self.state: StateRequest | None = next((each.state for each in members if each.state is not None), None)
        self.expansion: Expansion = members[0].expansion
        self.committed = [0] * len(members)
        self._members = members
        self._tokens: tuple[int, ...] = ()
        self._proposed_by: dict[Path, set[int]] = {}  # by path behind `_tokens`

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self._follow(view)
        if view.alone:
            self._members[0].expansion = self.expansion
            return self._members[0].draft(view, states)
        candidates = [each for number in range(len(self._members)) for each in self._candidates(number, view, states)]
        for each in candidates:
            self._proposed_by.setdefault(each.path, set()).add(each.member)
        choose = self._whole_groups if RULES[view.rule].grouped else self._fitting
        return _numbered(view, [*choose(view, candidates).values()])

    def _follow(self, view: TreeView) -> None:
        """Counts who proposed what was committed since, and forgets what cannot be committed any more."""
        keep = common_prefix(self._tokens, view.tokens)
        behind = view.tokens[keep:] if keep == len(self._tokens) else ()
        for count in range(1, len(behind) + 1):
            for member in self._proposed_by.get(behind[:count], ()):
                self.committed[member] += 1
        self._proposed_by = {
            path[len(behind) :]: members
            for path, members in self._proposed_by.items()
            if keep == len(self._tokens) and len(path) > len(behind) and path[: len(behind)] == behind
        }
        self._tokens = view.tokens

    def _candidates(self, number: int, view: TreeView, states: Sequence[State]) -> Iterator[_Candidate]:
        member = self._members[number]
        member.expansion = self.expansion
        paths, above = view.paths, scores(view)
        for index, each in enumerate(member.draft(view, states), start=1):
            paths[-index], above[-index] = (*paths[each.parent], each.token), above[each.parent] + each.logp
            yield _Candidate(paths[-index], above[-index], each, number)

    def _fitting(self, view: TreeView, candidates: Sequence[_Candidate]) -> dict[Path, _Candidate]:
        """Each path once, parents first: the likeliest, as far as there is room."""
        paths = view.paths
        known, taken = set(paths.values()), dict[Path, _Candidate]()
        guests = sum(self._is_guest(path) for path in paths.values())
        # Stable: of equally likely ones none comes before what it hangs from.
        for each in sorted(candidates, key=lambda each: -each.logp):
            if len(view.nodes) + len(taken) >= self.expansion.nodes:
                break
            if each.path in known or each.path[:-1] not in known:
                continue
            if self._is_guest(each.path):
                if guests >= _GUESTS_SHARE * self.expansion.nodes or each.logp < self.expansion.least_logp:
                    continue
                guests += 1
            taken[each.path] = each
            known.add(each.path)
        return taken

    def _is_guest(self, path: Path) -> bool:
        """Whether another member than the first proposed it alone."""
        return 0 not in self._proposed_by.get(path, {0})

    def _whole_groups(self, view: TreeView, candidates: Sequence[_Candidate]) -> dict[Path, _Candidate]:
        """One group below each node, and no part of one, in the order of members."""
        paths = view.paths
        reached, taken = set(paths.values()), dict[Path, _Candidate]()
        judged = {paths[node.parent] for node in view.nodes}
        groups: dict[tuple[int, Path], list[_Candidate]] = {}
        for each in candidates:
            groups.setdefault((each.member, each.path[:-1]), []).append(each)
        for (_, parent), group in groups.items():
            fits = len(view.nodes) + len(taken) + len(group) <= self.expansion.nodes
            if fits and parent in reached and parent not in judged:
                judged.add(parent)
                taken |= {each.path: each for each in group}
                reached |= taken.keys()
        return taken


def _numbered(view: TreeView, taken: Sequence[_Candidate]) -> list[Proposal]:
    """With the parents that they have among each other."""
    ids = {path: id_ for id_, path in view.paths.items()}
    above = scores(view)
    proposals: list[Proposal] = []
    for each in taken:
        parent = ids[each.path[:-1]]
        # A node whose parent another member thinks likelier keeps its own probability, not more than the parent's.
        logp = each.proposal.logp if each.proposal.draw else min(0.0, each.logp - above[parent])
        proposals.append(replace(each.proposal, parent=parent, logp=logp))
        ids[each.path] = -len(proposals)
        above[-len(proposals)] = above[parent] + logp
    return proposals
