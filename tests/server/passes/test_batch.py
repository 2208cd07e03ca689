"""What a planned pass computes is that of all its sessions, each behind its own context."""

from common.protocol.rules.verify_input import VerifyInput
from common.protocol.sampling import LIKELIEST
from common.protocol.scheduled_tokens import ScheduledTokens
from server.passes.batch import PlannedPass
from server.passes.pass_cost import PassWork


def test_the_work_of_a_pass_is_that_of_its_chains_and_nodes_behind_their_contexts() -> None:
    tree = VerifyInput("greedy", LIKELIEST, 11, (5, 6, 7), (-1, 0, 0))
    scheduled = [ScheduledTokens(10, (5,), tree, 0), ScheduledTokens(100, (3, 1, 4, 1), None, 0)]
    assert PlannedPass(["decodes", "reads"], scheduled, 0.0).work == PassWork(7, 110, 3 * 10 + 4 * 100)
