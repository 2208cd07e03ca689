"""Drafters of known skill, as functions from a view to proposals."""

import random
from collections.abc import Callable, Sequence

from common.protocol.views import Proposal, TreeView

Proposer = Callable[[TreeView], Sequence[Proposal]]

_LEAD = 12


def nothing(_: TreeView) -> list[Proposal]:
    return []


def knowing(sequence: Sequence[int], skill: float, vocab: int, seed: int = 0) -> Proposer:
    """Proposes the true next token of `sequence` with probability `skill`, and always a random sibling."""
    rng = random.Random(seed)

    def propose(view: TreeView) -> list[Proposal]:
        tip, position = 0, len(view.tokens)
        for node in view.nodes:
            if node.parent == tip and position < len(sequence) and node.token == sequence[position]:
                tip, position = node.id, position + 1
        if position >= len(sequence) or position - len(view.tokens) >= _LEAD:
            return []
        wrong = Proposal(tip, rng.randrange(vocab), -2.0)
        return [Proposal(tip, sequence[position], -0.1), wrong] if rng.random() < skill else [wrong]

    return propose


def guessing(vocab: int, seed: int = 0) -> Proposer:
    """Proposes random tokens below random nodes."""
    rng = random.Random(seed)

    def propose(view: TreeView) -> list[Proposal]:
        if len(view.nodes) > 40:
            return []
        parents = [0, *(node.id for node in view.nodes)]
        return [Proposal(rng.choice(parents), rng.randrange(vocab), -rng.random()) for _ in range(4)]

    return propose
