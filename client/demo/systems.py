"""The systems that the demo compares, as policies of one client. Data only."""

from collections.abc import Mapping
from dataclasses import replace

from client.answering import AnswerOptions
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from common.stated_costs import DRAFT_SECONDS

# Lock-step at its best for these models, by the sweep of `outrider-lab run streaming`.
_BEST_ROUND_LEVELS = 16

SYSTEMS: Mapping[str, Policy] = {
    "cloud": CLOUD,
    "lockstep": replace(LOCKSTEP, round_levels=_BEST_ROUND_LEVELS),
    "outrider": STREAM,
}
"""By name; the first is what the others are held against."""


def systems(max_new_tokens: int) -> dict[str, AnswerOptions]:
    """What each system is asked for, at the stated cost of a drafted level."""
    return {name: AnswerOptions(policy, max_new_tokens, pace=DRAFT_SECONDS) for name, policy in SYSTEMS.items()}
