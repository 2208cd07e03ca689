"""What the page tells of drafting: the nodes that are drafted and not decided yet, and what each commit confirmed.

Pure: nodes, tokens and times in, JSON values out. It may not know sessions, links or HTTP.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from common.protocol.views import NodeView

MOST_NODES = 200
"""Of one tree that are told: whoever looks reads no more."""

TextOf = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """`at_s` seconds after the question, `tokens` became final; the first `drafted` of them were nodes here."""

    at_s: float
    tokens: tuple[int, ...]
    drafted: int

    def as_dict(self, text_of: TextOf) -> dict[str, Any]:
        drafted, decided = self.tokens[: self.drafted], self.tokens[self.drafted :]
        return {
            "at_s": round(self.at_s, 2),
            "drafted": [text_of(token) for token in drafted],
            "decided": [text_of(token) for token in decided],
        }


def tree_as_rows(nodes: Sequence[NodeView], text_of: TextOf) -> list[list[Any]]:
    """Rows of depth, text and probability that the draft gives the path so far, at most `MOST_NODES`; each node before
    those below it, the likelier of two siblings first."""
    below: dict[int, list[NodeView]] = defaultdict(list)
    for node in nodes:
        below[node.parent].append(node)
    for siblings in below.values():
        siblings.sort(key=lambda node: node.logp)  # the likeliest is popped first
    rows: list[list[Any]] = []
    waiting = [(0, node) for node in below[0]]
    while waiting and len(rows) < MOST_NODES:
        depth, node = waiting.pop()
        rows.append([depth, text_of(node.token), round(math.exp(min(0.0, node.logp)), 2)])
        waiting += [(depth + 1, child) for child in below[node.id]]
    return rows
