"""Drafting policies: when a client drafts, and which idle policy it asks of the server. Data only."""

from dataclasses import dataclass, replace

from common.drafters.best_first import Expansion

PUBLISHED_TREE = Expansion(breadth=8, children=8, nodes=62, least_probability=1e-12)
"""The tree of published systems: breadth 8, and at the end 62 nodes (EAGLE-2, Li et al. 2024; Zimmer et al. 2025)."""

ROOMY_TREE = Expansion(breadth=8, children=8, nodes=256, least_probability=0.02)
"""Large enough that rounds are limited by their levels alone."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`round_levels`: levels drafted before one Grow carries them all, after which a commit is awaited;
    None if nothing is awaited, and `levels_together` levels leave in one Grow: each message meets the link's jitter
    anew, and what is sent in order waits for the slowest. Before the first token it is `first_levels_together`; if
    siblings are judged as groups each level leaves at once.
    `idle` names the idle policy asked of the server, empty for the server's own choice. `tree` bounds the tree; None
    leaves that to the controller."""

    name: str
    drafts: bool
    round_levels: int | None = None
    levels_together: int = 3
    first_levels_together: int = 6
    idle: str = ""
    tree: Expansion | None = None


STREAM = Policy("stream", drafts=True)
LOCKSTEP = Policy("lockstep", drafts=True, round_levels=6, idle="lockstep", tree=PUBLISHED_TREE)
LONG_LOCKSTEP = replace(LOCKSTEP, round_levels=48, tree=ROOMY_TREE)
"""Lock-step at its best with the demo's models: of the rounds that `outrider-lab run frontier` tries, those of 48
levels have most tokens per second over 4G and 5G."""
CLOUD = Policy("cloud", drafts=False, idle="eager")

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (STREAM, LOCKSTEP, CLOUD)}
