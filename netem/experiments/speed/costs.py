"""The stated costs of all runs on the virtual clock, as data and as a remark. Nothing else may live here."""

from common.stated_costs import IN_WORDS, SERVER_LEVEL_MS, STATED
from netem.virtual.clock import WAKE_S
from netem.virtual.stream import HANDLING_S

VIRTUAL_COSTS = {
    **STATED,
    "server_level_ms": SERVER_LEVEL_MS,
    "message_ms": 1000 * HANDLING_S,
    "wake_ms": 1000 * WAKE_S,
}

OVERHEADS = (
    f"a message takes {1000 * HANDLING_S:g} ms at both ends together, beside the link, and passes and levels end "
    f"{1000 * WAKE_S:g} ms late, as a thread that sleeps wakes"
)

VIRTUAL_CLOCK = (
    f"Virtual clock: the real engine, drafts and target; time is what links and stated costs make it: {IN_WORDS}, one "
    f"on the server {SERVER_LEVEL_MS:.2f} ms, beside the pass where the policy is assist or auto; {OVERHEADS}."
)
