"""Several drafters in one tree (SpecInfer, Miao et al. 2024, arXiv 2305.09781, merges trees of several models): what
two of them propose is one node, and each node's proposers are remembered.

What may live here: which proposals are taken, and who proposed what was committed. It may not know any kind, nor how a
drafter computes.

Under a rule with drawn siblings the children of a node come from all members that propose any in the same call, one
member's after another's, without the tokens of those before. The target judges each against the distribution that it
was drawn from (`common/protocol/rules/speculative.py`). Which members these are depends on the path to the node and on
what is elsewhere in the tree, never on what they drew for it or below it, so that the target's distribution stays.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from common.drafters.best_first import Expansion, scores
from common.drafters.drafter import Drafter, rescored_by
from common.drafters.owed import OwedStates
from common.protocol.messages import State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.rules import RULES
from common.protocol.views import NodeView, Proposal, TreeView

_GUESTS_SHARE = 0.4
"""Of the tree's nodes that may come from guests alone."""

_GUESTS_LEAST, _HOSTS_LEAST = math.log(0.03), math.log(0.004)
"""The least cumulative log-probabilities of nodes that take room which later levels need: of a guest's always, of the
host's where all that is proposed would not fill the tree. docs/log.md compares shares and bounds."""

_GUESTS_NODE, _GUESTS_NODE_AHEAD = 3.0, 6.0
"""In a tree of N nodes a guest's node is worth at least so much over max(N, 60), as a cumulative probability: room is
scarcer in a small tree, and beside a host that goes several tokens ahead, which fills it by itself."""

_FIRST_CLAIMS, _FIRST_TRUST = 4.0, 0.3
"""What guests are trusted before the target has judged any: so much of the first so many tokens that they claim."""

_MEMORY, _LEAST_RIGHT = 0.99, 1e-3
"""The weight that remains of what was learnt after each position at which the target chose between guests and host, for
the text of a conversation changes; and the least that is remembered of right guesses."""

_UNJOINED_LEAST = math.log(0.5)
"""The least log-probability of a guest's picked sibling below a node where the host proposes none now, for it can add
none later."""

_LEAST_LEFT = 1e-3
"""The least probability, as it is estimated, that the target commits none of a node's siblings."""

Path = tuple[int, ...]
"""The tokens of the sequence, or behind it, that lead to a node, its own included."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A proposal by the tokens behind the root; `logp` is cumulative from there, as its member claims it, `worth` as it
    competes for room."""

    path: Path
    logp: float
    worth: float
    proposal: Proposal
    member: int


class MergedDrafter:
    """`members` are in the order in which their siblings are tried. The one that proposed most of what was committed is
    the host, at first the first: it has most of the tree, and the others are its guests. How likely a member finds the
    tree's nodes counts for those after it. `copying` members see what the others propose in the same call, and rescore
    nothing. One request for draft state serves all members that need any. The first writes alone where no target
    verifies, and the others get the state that came meanwhile once they draft again. `committed` counts, for each, the
    committed tokens that it proposed.

    A guest claims how often it is right, whether or not the host proposes the same; where they differ it is right less
    often. How much less is learnt from what the target commits, and decides what competes for room."""

    def __init__(self, members: Sequence[Drafter], copying: Sequence[Drafter] = ()):
        every = [*members, *copying]
        self.kind = "+".join(member.kind for member in every)
        self.state: StateRequest | None = next((each.state for each in every if each.state is not None), None)
        self.expansion: Expansion = every[0].expansion
        self.committed = [0] * len(every)
        self._members = every
        self._first_copying = len(members)
        self._owed = OwedStates(each for each in every if each.state is not None)
        self._tokens: tuple[int, ...] = ()
        # By path behind `_tokens`, the probability behind its parent that each of its proposers claims.
        self._proposed_by: dict[Path, dict[int, float]] = {}
        self._claimed, self._right = _FIRST_CLAIMS, _FIRST_CLAIMS * _FIRST_TRUST  # of guests, beside the host

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self._follow(view)
        self._owed.add(states)
        if view.alone:
            first = self._members[0]
            first.expansion = self.expansion
            return first.draft(view, self._owed.take(first))
        grouped = RULES[view.rule].grouped
        candidates: list[_Candidate] = []
        for number in range(len(self._members)):
            # Below a drawn sibling, one that copies would keep out those that the others have yet to draw.
            seen = view if grouped or number < self._first_copying else _extended(view, candidates)
            # What is only proposed takes no room yet.
            member = self._members[number]
            member.expansion = replace(self.expansion, nodes=self.expansion.nodes + len(seen.nodes) - len(view.nodes))
            proposals = member.draft(seen, self._owed.take(member))
            if (rescored := rescored_by(member, seen)) is not seen:
                view = seen = rescored
            candidates += _candidates(number, seen, proposals)
        for each in candidates:
            self._proposed_by.setdefault(each.path, {})[each.member] = math.exp(each.proposal.logp)
        choose = self._joined_groups if grouped else self._fitting
        return _numbered(view, choose(view, candidates))

    @property
    def _host(self) -> int:
        return max(range(len(self._members)), key=self.committed.__getitem__)

    def _follow(self, view: TreeView) -> None:
        """Counts who proposed what was committed since, learns how far guests are right, and forgets what cannot be
        committed any more."""
        keep = common_prefix(self._tokens, view.tokens)
        if keep < len(self._tokens):
            self._owed.forget(keep)
        behind = view.tokens[keep:] if keep == len(self._tokens) else ()
        # Neither what was written alone nor the next question says anything of what the target would have chosen.
        is_answer = keep >= view.prompt_length
        committed = behind[: max(0, len(behind) - view.provisional)] if is_answer else ()
        if committed:
            self._learn_trust(committed)
        for count in range(1, len(committed) + 1):
            for member in self._proposed_by.get(committed[:count], ()):
                self.committed[member] += 1
        self._proposed_by = {
            path[len(behind) :]: members
            for path, members in self._proposed_by.items()
            if keep == len(self._tokens) and len(path) > len(behind) and path[: len(behind)] == behind
        }
        self._tokens = view.tokens

    def _learn_trust(self, committed: Path) -> None:
        """Learns from the guests' proposals beside such of the host where the target has chosen."""
        host, siblings = self._host, dict[Path, list[Path]]()
        for path in self._proposed_by:
            if len(path) <= len(committed) and path[:-1] == committed[: len(path) - 1]:
                siblings.setdefault(path[:-1], []).append(path)
        for paths in siblings.values():
            guests = [path for path in paths if self._is_guests(path, host)]
            if guests and len(guests) < len(paths):
                claimed = sum(max(self._proposed_by[path].values()) for path in guests)
                right = sum(path == committed[: len(path)] for path in guests)
                self._claimed = _MEMORY * self._claimed + claimed
                self._right = max(_LEAST_RIGHT, _MEMORY * self._right + right)

    def _weighed(self, candidates: Sequence[_Candidate], host: int) -> list[_Candidate]:
        """With what each is worth: a guest's beside proposals of the host, and what hangs from it, is trusted as far as
        such proposals were right."""
        distrust = min(0.0, math.log(self._right / self._claimed))
        expanded_by_host = {path[:-1] for path, proposers in self._proposed_by.items() if host in proposers}
        # By path, for what hangs from a node, whoever proposed it, may not come before it.
        distrusted: dict[Path, float] = {}
        weighed: list[_Candidate] = []
        for each in candidates:
            above = distrusted.get(each.path[:-1], 0.0)
            is_beside = each.path[:-1] in expanded_by_host and self._is_guests(each.path, host)
            less = distrusted[each.path] = above + distrust if is_beside else above
            weighed.append(replace(each, worth=each.logp + less))
        return weighed

    def _fitting(self, view: TreeView, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Each path once, parents first: what is worth most, as far as there is room."""
        paths, host, most = view.paths, self._host, self.expansion.nodes
        known, taken = set(paths.values()), list[_Candidate]()
        guests = sum(self._is_guests(path, host) for path in paths.values())
        goes_ahead = any(each.member == host and each.proposal.parent < 0 for each in candidates)
        of_node = math.log((_GUESTS_NODE_AHEAD if goes_ahead else _GUESTS_NODE) / max(most, 60))
        least = max(_GUESTS_LEAST, of_node, self.expansion.least_logp)
        full = len(view.nodes) + len({each.path for each in candidates} - known) >= most
        # Stable: of those worth the same none comes before what it hangs from.
        for each in sorted(self._weighed(candidates, host), key=lambda each: -each.worth):
            if len(view.nodes) + len(taken) >= most:
                break
            if each.path in known or each.path[:-1] not in known:
                continue
            if self._is_guests(each.path, host):
                if guests >= _GUESTS_SHARE * most or each.worth < least:
                    continue
                guests += 1
            elif not full and each.logp < _HOSTS_LEAST:
                continue
            taken.append(each)
            known.add(each.path)
        return taken

    def _is_guests(self, path: Path, host: int) -> bool:
        """Whether other members than the host proposed it, and the host did not."""
        return host not in self._proposed_by.get(path, {host})

    def _joined_groups(self, view: TreeView, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Whole groups, those below one node joined in the order of members. Whether one is taken depends on its size
        and its parent, not on its tokens, but where nobody drew these."""
        paths, host = view.paths, self._host
        expanded = {paths[node.parent] for node in view.nodes}
        reached, joined = set(paths.values()), dict[Path, list[_Candidate]]()
        room = self.expansion.nodes - len(view.nodes)
        groups = _groups(candidates)
        for (member, parent), group in groups.items():
            if len(group) > room or parent not in reached or parent in expanded:
                continue
            # What was drawn must not decide, so that a drawn group is taken whatever its probabilities.
            is_picked = group[0].proposal.draw is None
            if is_picked and member != host and not _is_worth_adding(group[0], (host, parent) in groups):
                continue
            room -= len(group)
            before = joined.get(parent, [])
            tried = {each.path for each in before}
            joined[parent] = [*before, *(_behind(each, before) for each in group if each.path not in tried)]
            reached |= {each.path for each in group}
        return [each for group in joined.values() for each in group]


def _candidates(member: int, view: TreeView, proposals: Sequence[Proposal]) -> Iterator[_Candidate]:
    paths, above = view.paths, scores(view)
    for index, each in enumerate(proposals, start=1):
        paths[-index], above[-index] = (*paths[each.parent], each.token), above[each.parent] + each.logp
        yield _Candidate(paths[-index], above[-index], above[-index], each, member)


def _is_worth_adding(picked: _Candidate, is_joined: bool) -> bool:
    """Whether a guest's picked sibling may come; `is_joined` where the host proposes siblings now."""
    return picked.logp >= _GUESTS_LEAST and (is_joined or picked.proposal.logp >= _UNJOINED_LEAST)


def _groups(candidates: Sequence[_Candidate]) -> dict[tuple[int, Path], list[_Candidate]]:
    """By member and parent."""
    groups: dict[tuple[int, Path], list[_Candidate]] = {}
    for each in candidates:
        groups.setdefault((each.member, each.path[:-1]), []).append(each)
    return groups


def _behind(each: _Candidate, before: Sequence[_Candidate]) -> _Candidate:
    """With the log-probabilities that it has where others are tried `before` it."""
    left = math.log(max(_LEAST_LEFT, 1 - sum(math.exp(other.proposal.logp) for other in before)))
    return replace(each, logp=each.logp + left, proposal=replace(each.proposal, logp=each.proposal.logp + left))


def _extended(view: TreeView, candidates: Sequence[_Candidate]) -> TreeView:
    """The view with what is proposed, under ids of its own."""
    ids = {path: id_ for id_, path in view.paths.items()}
    nodes = list(view.nodes)
    for id_, each in enumerate(candidates, start=1 + max(ids.values())):
        if each.path not in ids:
            ids[each.path] = id_
            position = len(view.tokens) - 1 + len(each.path)
            nodes.append(NodeView(id_, ids[each.path[:-1]], each.path[-1], position, each.logp))
    return replace(view, nodes=tuple(nodes))


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
