"""A client's tree without a session: applies a drafter's proposals and commits tokens."""

from collections.abc import Sequence

from common.drafters.drafter import Drafter
from common.protocol.client_session import ClientSession, Limits
from common.protocol.messages import Commit, Opened, Settings
from common.protocol.views import Proposal


class Growing:
    def __init__(self, drafter: Drafter, prompt: Sequence[int], vocab: int):
        self.drafter = drafter
        self.session = ClientSession("s", Limits("f", vocab, context=4096, max_nodes=512))
        self.session.open(prompt, Settings(max_new_tokens=2048))
        self.session.receive(Opened("s"))

    def draft(self) -> list[tuple[tuple[int, ...], Proposal]]:
        """One level, applied to the tree; every proposal with the whole sequence that leads to it."""
        view = self.session.view()
        proposals = self.drafter.draft(view)
        nodes = {node.id: node for node in view.nodes}
        paths: list[tuple[int, ...]] = []
        for proposal in proposals:
            if proposal.parent < 0:
                above = (*paths[-proposal.parent - 1], proposals[-proposal.parent - 1].token)
            else:
                below, at = [], proposal.parent
                while at:
                    below.append(nodes[at].token)
                    at = nodes[at].parent
                above = (*view.tokens, *reversed(below))
            paths.append(above)
        self.session.propose(len(view.tokens), proposals)
        return list(zip(paths, proposals, strict=True))

    def commit(self, tokens: Sequence[int]) -> None:
        self.session.receive(Commit(self.session.turn, self.session.tree.frontier, tuple(tokens)))
