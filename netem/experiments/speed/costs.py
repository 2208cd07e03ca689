"""The stated costs of all runs on the virtual clock, as data and as a remark. Nothing else may live here."""

from dataclasses import asdict

from common.pacing import WAKE_S
from common.stated_costs import STATED, StatedCosts
from netem.virtual.stream import HANDLING_S


def virtual_costs(costs: StatedCosts) -> dict[str, float]:
    """In milliseconds, by name."""
    return {
        **asdict(costs),
        "server_level_ms": costs.server_level_ms,
        "message_ms": 1000 * HANDLING_S,
        "wake_ms": 1000 * WAKE_S,
    }


VIRTUAL_COSTS = virtual_costs(STATED)

OVERHEADS = (
    f"a message takes {1000 * HANDLING_S:g} ms at both ends together, beside the link, and passes and levels end "
    f"{1000 * WAKE_S:g} ms late, as a thread that sleeps wakes"
)

VIRTUAL_CLOCK = (
    f"Virtual clock: the real engine, drafts and target; time is what links and stated costs make it: "
    f"{STATED.in_words}, one on the server {STATED.server_level_ms:.2f} ms, beside the pass where the policy is assist "
    f"or auto; {OVERHEADS}."
)
