"""What a step of the experiment `law` costs."""

from common.protocol.views import Proposal
from netem.experiments.law.conditions import levels


def test_levels_are_counted_along_parents_that_are_proposed_with_their_children():
    assert levels([]) == 0
    assert levels([Proposal(0, 5, -1.0), Proposal(7, 6, -1.0)]) == 1
    assert levels([Proposal(0, 5, -1.0), Proposal(-1, 6, -1.0), Proposal(0, 7, -1.0), Proposal(-2, 8, -1.0)]) == 3
