"""A stand-in for the owner of slots: one session's text and tree, its passes, and their expected results."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from common.models.packed import PackedModel
from common.models.segment import Segment
from common.models.slots import SlotPool


class Session:
    """Committed tokens and branches of one session, with their slots."""

    def __init__(self, slots: SlotPool) -> None:
        self.slots = slots
        self.past_tokens: list[int] = []
        self.past_slots: list[int] = []
        self.branch_tokens: list[int] = []
        self.branch_slots: list[int] = []
        self.parents: list[int] = []

    def propose(self, tokens: Sequence[int], parents: Sequence[int]) -> Segment:
        """Adds branches; the segment computes just these, with every row wanted."""
        self.branch_tokens += tokens
        self.branch_slots += self.slots.take(len(tokens))
        self.parents += parents
        return Segment(
            tokens=list(tokens),
            slots=list(self.branch_slots),
            parents=list(self.parents),
            past_slots=list(self.past_slots),
            wanted=range(len(tokens)),
        )

    def append(self, tokens: Sequence[int]) -> Segment:
        """Proposes a chain below the past."""
        return self.propose(tokens, range(-1, len(tokens) - 1))

    def line(self, branch: int) -> list[int]:
        """A branch's ancestors and itself, the oldest first."""
        line = []
        while branch >= 0:
            line.append(branch)
            branch = self.parents[branch]
        return line[::-1]

    def commit(self, branch: int) -> None:
        """Moves the path to `branch` into the past, keeps what hangs below it, and frees the rest."""
        line = self.line(branch)
        below = [each for each in range(len(self.parents)) if branch in self.line(each) and each != branch]
        kept = {branch: -1} | {old: new for new, old in enumerate(below)}
        dead = [self.branch_slots[each] for each in range(len(self.parents)) if each not in {*line, *below}]
        self.past_tokens += [self.branch_tokens[each] for each in line]
        self.past_slots += [self.branch_slots[each] for each in line]
        self.parents = [kept[self.parents[each]] for each in below]
        self.branch_tokens = [self.branch_tokens[each] for each in below]
        self.branch_slots = [self.branch_slots[each] for each in below]
        self.slots.give(dead)

    def expected(self, reference: PreTrainedModel, newest: int) -> list[torch.Tensor]:
        """The plain model's logits after the whole path of each of the newest branches, `[vocabulary]`; those of a
        branch come from the same forward as those of its ancestors."""
        found: dict[int, torch.Tensor] = {}
        rows = range(len(self.parents))[-newest:]
        for branch in reversed(rows):
            if branch not in found:
                line = self.line(branch)
                path = self.past_tokens + [self.branch_tokens[each] for each in line]
                found |= zip(line, linear_logits(reference, path)[-len(line) :], strict=True)
        return [found[branch] for branch in rows]


@torch.inference_mode()
def linear_logits(reference: PreTrainedModel, tokens: Sequence[int]) -> torch.Tensor:
    """`[tokens, vocabulary]` of the plain model."""
    return reference(torch.tensor([list(tokens)]), use_cache=False).logits[0]


def check(
    packed: PackedModel,
    reference: PreTrainedModel,
    sessions: Sequence[Session],
    segments: Sequence[Segment],
    tolerance: float = 1e-9,
) -> None:
    """Runs one pass and compares every wanted row with a linear forward of a path that it is on."""
    logits = packed.forward(segments).logits
    expected: list[torch.Tensor] = []
    for session, segment in zip(sessions, segments, strict=True):
        rows = session.expected(reference, len(segment.tokens))
        expected += [rows[wanted] for wanted in segment.wanted]
    torch.testing.assert_close(logits, torch.stack(expected), rtol=0, atol=tolerance)
