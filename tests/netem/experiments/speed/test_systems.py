"""netem.experiments.speed.systems: baselines and ours differ in policy alone."""

import pytest

from common.protocol.idle import IDLE_POLICIES
from common.stated_costs import STATED
from netem.experiments.speed.systems import SYSTEMS


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_a_system_asks_for_what_it_is(system):
    options = system.options(12)
    assert (options.policy, options.settings().idle, options.max_new_tokens) == (system.policy, system.idle, 12)
    assert options.pace == STATED.draft_seconds
    assert system.options(12, 0.25).pace == 0.25
    assert system.idle in IDLE_POLICIES
    assert (system.draft is not None) == system.policy.drafts
