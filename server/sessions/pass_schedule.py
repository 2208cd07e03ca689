"""What each due session gets of the next pass: asks the scheduler, which knows no sessions, with their demands and with
how likely their nodes are committed.

It may not know streams, slots or how passes are run.
"""

from collections.abc import Collection, Sequence

from common.protocol.selection import commit_probabilities
from server.fault_isolation import FaultIsolation
from server.passes.pass_cost import PassCost
from server.passes.scheduler import PassPrices, Probabilities, schedule
from server.sessions.entry import SessionEntry


def schedule_sessions(
    due: Sequence[SessionEntry],
    connected: Collection[SessionEntry],
    budget: int,
    cost: PassCost,
    isolation: FaultIsolation[SessionEntry],
    now: float,
) -> list[int]:
    """The tokens of each due session in the next pass, together at most `budget`. Of the `connected` sessions that are
    not due, those that decode will wait for it."""

    def weigh(entries: Sequence[SessionEntry]) -> Sequence[Probabilities]:
        most = [each.session.acceptance.max_acceptance for each in entries]
        return commit_probabilities([each.session.tree.rows for each in entries], most)

    def weighed(indices: Sequence[int]) -> list[Probabilities]:
        found = dict(isolation.call_together([due[index] for index in indices], weigh))
        return [found.get(due[index], ()) for index in indices]

    here = set(due)
    later = (each.session for each in connected if each not in here and each.recently_decoded(now))
    prices = PassPrices(cost.estimates, cost.measured, cost.is_measured)
    return schedule([entry.demand for entry in due], budget, prices, weighed, [each.processed for each in later])
