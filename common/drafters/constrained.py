"""What a constraint of the answer takes from proposals, and adds to them. `allowed_proposals` is for drafters that do
not choose each token behind the ones before it; others mask logits and draft by levels, as `with_forced` needs."""

from collections.abc import Sequence
from dataclasses import replace

from common.protocol.views import Proposal, TreeView

_MOST_FORCED = 8
"""Tokens that one proposal brings with it: few enough that a long text without a choice does not fill the tree."""


def allowed_proposals(view: TreeView, proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals that the view's constraint allows, without those below a node that it forbids."""
    constraint = view.constraint
    if constraint is None or not proposals:
        return list(proposals)
    answers = _answers(view)
    kept: list[Proposal] = []
    new_ids: dict[int, int] = {}
    for index, proposal in enumerate(proposals, start=1):
        parent = new_ids.get(proposal.parent) if proposal.parent < 0 else proposal.parent
        if parent is None or not constraint.allowed(answers[proposal.parent])[proposal.token]:
            continue
        kept.append(replace(proposal, parent=parent))
        new_ids[-index] = -len(kept)
        answers[-index] = (*answers[proposal.parent], proposal.token)
    return kept


def with_forced(view: TreeView, proposals: Sequence[Proposal], most: int) -> list[Proposal]:
    """The proposals of one call, and behind those that none of them continues the tokens about which the view's
    constraint leaves no choice, at most `most` in all: these need no level of their own."""
    constraint = view.constraint
    found = list(proposals)
    if constraint is None:
        return found
    answers, continued = _answers(view), {proposal.parent for proposal in proposals}
    for index, proposal in enumerate(proposals, start=1):
        answers[-index], parent = (*answers[proposal.parent], proposal.token), -index
        if parent in continued:
            continue
        for token in constraint.forced(answers[-index], min(_MOST_FORCED, most)):
            found.append(Proposal(parent, token, 0.0))
            parent = -len(found)
            most -= 1
    return found


def _answers(view: TreeView) -> dict[int, tuple[int, ...]]:
    """The answer's tokens up to each node by id, its own included, and up to the root by 0."""
    answer = view.tokens[view.prompt_length :]
    return {id_: (*answer, *path) for id_, path in view.paths.items()}
