"""The systems under test: the same code and draft models with different policies. Data, and their answer options."""

from collections.abc import Mapping
from dataclasses import dataclass

from client.answering import AnswerOptions
from client.drafting.policies import CLOUD, LOCKSTEP, LONG_LOCKSTEP, STREAM, Policy
from common.stated_costs import STATED
from netem.virtual.client import DraftSetup

MOA, EAGLE, INDEPENDENT = DraftSetup("moa"), DraftSetup("eagle"), DraftSetup("independent")


@dataclass(frozen=True, slots=True)
class System:
    """idle: the idle policy requested from the server. draft: the draft model on the client; None where there is
    none. beside: others that draft into the same tree."""

    name: str
    policy: Policy
    idle: str
    draft: DraftSetup | None = None
    beside: tuple[DraftSetup, ...] = ()

    def options(self, new_tokens: int, level_seconds: float = STATED.draft_seconds) -> AnswerOptions:
        """For an answer of at most `new_tokens`; each level drafted by the client takes `level_seconds`."""
        return AnswerOptions(self.policy, new_tokens, idle=self.idle, pace=level_seconds)


CLOUD_DECODING = System("cloud decoding", CLOUD, "eager")
COLOCATED = System("server-side speculation", CLOUD, "colocated")
OVERLAPPED = System("server-side, overlapped", CLOUD, "auto")
"""Nothing is drafted on the client; the server drafts during passes too, while it has capacity left."""
LOCKSTEP_MOA = System("lock-step moa", LOCKSTEP, "lockstep", MOA)
LOCKSTEP_EAGLE = System("lock-step eagle", LOCKSTEP, "lockstep", EAGLE)
PATIENT = System("patient", STREAM, "patient", MOA)
EAGER = System("eager", STREAM, "eager", MOA)
ASSIST = System("assist", STREAM, "assist", MOA)
AUTO = System("auto", STREAM, "auto", MOA)

SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        CLOUD_DECODING,
        COLOCATED,
        OVERLAPPED,
        LOCKSTEP_EAGLE,
        System("lock-step independent", LOCKSTEP, "lockstep", INDEPENDENT),
        LOCKSTEP_MOA,
        System("lock-step moa, long", LONG_LOCKSTEP, "lockstep", MOA),
        PATIENT,
        EAGER,
        ASSIST,
        AUTO,
    )
}
"""By name: the baselines, then ours."""
