import math

import pytest

from common.protocol.idle import IDLE_POLICIES, PATIENT_NODES, Waiting

SINCE, RESPONSE = 10.0, 0.25


@pytest.mark.parametrize(
    ("policy", "nodes", "exhausted", "due"),
    [
        ("eager", 0, False, SINCE),
        ("patient", 0, False, SINCE + RESPONSE),
        ("patient", PATIENT_NODES - 1, False, SINCE + RESPONSE),
        ("patient", PATIENT_NODES, False, SINCE),
        ("patient", 0, True, SINCE),
        ("lockstep", 0, False, math.inf),
        ("lockstep", 1, False, SINCE),
        ("lockstep", 0, True, SINCE),
    ],
)
def test_when_a_policy_takes_part_in_a_pass(policy, nodes, exhausted, due):
    assert IDLE_POLICIES[policy](Waiting(nodes, exhausted, SINCE, RESPONSE)) == due
