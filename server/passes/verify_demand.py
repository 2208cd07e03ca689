"""What due sessions ask of a pass: where a wider one takes longer, only the nodes that are worth it. Pure.

It may not know how tokens are shared out, nor slots or streams.
"""

from collections.abc import Sequence
from dataclasses import replace

from common.protocol.selection import chances
from common.protocol.tree import TokenTree
from server.fault_isolation import FaultIsolation
from server.passes.scheduler import Demand
from server.passes.verify_budget import Cost, worthwhile
from server.sessions.entry import Member

_FREE = 1.05
"""Times what a pass costs without nodes, up to which nodes count as free."""


def worthwhile_demands(
    due: Sequence[Member], budget: int, cost: Cost, isolation: FaultIsolation[Member]
) -> list[Demand]:
    demands = [member.demand for member in due]
    chains = sum(demand.chain for demand in demands)
    if cost(min(budget, sum(demand.tokens for demand in demands))) <= _FREE * cost(chains):
        return demands
    decoding = [place for place, demand in enumerate(demands) if demand.decodes]
    counts = worthwhile(
        [_chances_of(due[place], isolation) for place in decoding],
        roots=len(decoding),
        other_tokens=min(budget, chains) - len(decoding),
        most=max(0, budget - chains),
        cost=cost,
    )
    for place, count in zip(decoding, counts, strict=True):
        demands[place] = replace(demands[place], nodes=max(count, _least_nodes(due[place].session.tree)))
    return demands


def _chances_of(member: Member, isolation: FaultIsolation[Member]) -> list[float]:
    """None of a session that cannot be weighed."""
    weighed: list[float] = []
    with isolation(member):
        weighed += chances(member.session.tree, member.session.tempo.believable)
    return weighed


def _least_nodes(tree: TokenTree) -> int:
    """The group below the root is judged by the first pass that can, however little the rest of the tree is worth:
    whether it is must not follow from what was drawn for it."""
    return len(tree.root.children) if tree.grouped else 0
