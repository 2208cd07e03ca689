"""When a client drafts and what it asks of the server's idle time. Data only; `drafting` gives it effect."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """`round_levels`: levels drafted before one Grow carries them all, after which a commit is awaited;
    None where every level is sent the moment it is drafted and nothing is awaited.
    `idle` names the idle policy asked of the server, empty for the server's own choice."""

    name: str
    drafts: bool
    round_levels: int | None = None
    idle: str = ""


STREAM = Policy("stream", drafts=True)
LOCKSTEP = Policy("lockstep", drafts=True, round_levels=6, idle="lockstep")
CLOUD = Policy("cloud", drafts=False, idle="eager")

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (STREAM, LOCKSTEP, CLOUD)}
