"""Sessions of constrained answers, whose passes commit tokens that nothing has computed."""

import math

from common.protocol.messages import Ack
from tests.common.protocol.test_server_session import session


def test_run_ahead_stops_behind_forced_tokens_too():
    """A pass may commit more than its rows: what follows the root's choice, and leaves no other."""
    server = session(run_ahead=6)
    for _ in range(9):
        if server.due() < math.inf:
            scheduled = server.plan(64)
            server.complete(scheduled, [4, 5, 6, 7], 1.0)
    assert server.tree.frontier - server.acked == 8
    server.receive(Ack(0, 11), 2.0)
    assert server.due() < math.inf
    assert server.plan(64).chain == (4, 5, 6, 7)
