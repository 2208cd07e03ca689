"""client.refusals: which failures another replica may not have, and which of several is told."""

import pytest

from client.refusals import Refusals
from common.protocol.messages import Failed, FailureCode


@pytest.mark.parametrize(
    ("code", "is_of_one"),
    [
        (FailureCode.OVERLOADED, True),
        (FailureCode.MEMORY, True),
        (FailureCode.DRAINING, True),
        (FailureCode.QUOTA, False),
    ],
)
def test_another_replica_is_asked_for_what_it_may_have(code, is_of_one):
    assert Refusals().is_of_one_replica(Failed(code, "no")) is is_of_one


def test_what_full_replicas_said_of_the_last_answer_is_not_told_of_the_next():
    refusals = Refusals()
    refusals.is_of_one_replica(Failed(FailureCode.OVERLOADED, "before", 1.0))
    refusals.begin_answer()
    failed = Failed(FailureCode.OVERLOADED, "now", 5.0)
    refusals.is_of_one_replica(failed)
    assert refusals.error_for(failed).retry_after == 5.0
