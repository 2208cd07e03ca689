"""What a constraint of the answer leaves of proposals that were made without it. For drafters that do not choose each
token behind the ones before it; others mask their logits."""

from collections.abc import Sequence
from dataclasses import replace

from common.protocol.views import Proposal, TreeView


def allowed_proposals(view: TreeView, proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals that the view's constraint allows, without those below a node that it forbids."""
    constraint = view.constraint
    if constraint is None or not proposals:
        return list(proposals)
    answers = {0: view.tokens[view.prompt_length :]}
    for node in view.nodes:
        answers[node.id] = (*answers[node.parent], node.token)
    kept: list[Proposal] = []
    places: dict[int, int] = {}
    for index, proposal in enumerate(proposals, start=1):
        parent = places.get(proposal.parent) if proposal.parent < 0 else proposal.parent
        if parent is None or not constraint.allowed(answers[proposal.parent])[proposal.token]:
            continue
        kept.append(replace(proposal, parent=parent))
        places[-index] = -len(kept)
        answers[-index] = (*answers[proposal.parent], proposal.token)
    return kept
