"""Speculative decoding in rounds on one device: draft a tree, verify it in one pass, give the drafter the new draft
state. Training and experiments measure drafts with it.

What may live here: the round itself, over a real target, drafter and tree. It may not know any link, stream, session
or cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from common.codec import encode
from common.draft_models.exporters import StateExporter
from common.drafters.drafter import Drafter
from common.models.packed import PackedModel
from common.models.slots import SlotPool
from common.protocol.messages import GrownNode, Settings, State
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal, TargetChoices
from common.sampling.logit_rows import LogitRows


class StateChannel(Protocol):
    """The path of draft state from target to drafter; without one, all state arrives at once."""

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        """What arrives before the next tree is drafted: `frames` are new, of the last of `processed` positions."""
        ...


@dataclass(frozen=True, slots=True)
class RoundsAnswer:
    """`levels`: drafted levels, `state_bytes`: encoded draft state that was delivered, both of the whole answer;
    `packed`: tokens of each pass behind the prompt's own."""

    tokens: tuple[int, ...]
    passes: int
    levels: int
    packed: tuple[int, ...]
    state_bytes: int

    @property
    def accept_length(self) -> float:
        """Committed tokens per pass, without the prompt's own pass and its token."""
        return accept_length([self])


def accept_length(answers: Sequence[RoundsAnswer]) -> float:
    """Committed tokens per pass over all answers, without the prompts' own; 0 where none had a second pass."""
    passes = sum(answer.passes - 1 for answer in answers)
    return sum(len(answer.tokens) - 1 for answer in answers) / passes if passes > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Rounds:
    """Decoding with one target and one drafter. At most `levels` are drafted in a round, 0 for plain decoding; draft
    state is made by `exporters` and encoded in `dtype`; a `channel` serves one answer. Tokens are chosen by `rule` from
    the logits that `sampling` has processed."""

    target: PackedModel
    drafter: Drafter
    exporters: Sequence[StateExporter] = ()
    levels: int = 6
    dtype: str = "int8"
    channel: StateChannel | None = None
    rule: str = "greedy"
    sampling: Sampling = LIKELIEST

    def answer(self, prompt: Sequence[int], new_tokens: int, ends: frozenset[int] = frozenset()) -> RoundsAnswer:
        """The target's answer of at most `new_tokens` tokens, cut after the first that is in `ends`."""
        settings = Settings(new_tokens, self.rule, sampling=self.sampling)
        tree = TokenTree(prompt)
        tree.grouped = RULES[self.rule].grouped
        sequence = _Sequence(self.target)
        passes = levels = state_bytes = 0
        packed: list[int] = []
        choices: TargetChoices | None = None
        while True:
            frames: Sequence[State] = self._export(sequence)
            if self.channel is not None:
                frames = self.channel.deliver(frames, len(sequence.slots))
            state_bytes += sum(len(frame.payload) for frame in frames)
            if passes:
                levels += self._draft(tree, frames, settings, len(prompt), choices)
                packed.append(tree.frontier - len(sequence.slots) + len(tree))
            choices = sequence.verify(tree, settings, len(prompt))
            passes += 1
            answer = tree.tokens[len(prompt) : len(prompt) + new_tokens]
            end = next((index + 1 for index, token in enumerate(answer) if token in ends), new_tokens)
            if len(answer) >= end:
                return RoundsAnswer(tuple(answer[:end]), passes, levels, tuple(packed), state_bytes)

    def _draft(
        self,
        tree: TokenTree,
        frames: Sequence[State],
        settings: Settings,
        prompt_length: int,
        choices: TargetChoices | None,
    ) -> int:
        drafted, usual = 0, self.drafter.expansion
        for level in range(self.levels):
            self.drafter.expansion = usual.filling if level + 1 == self.levels else usual
            view = tree.view().drafted_for(settings, prompt_length)
            proposals = self.drafter.draft(replace(view, choices=choices), frames)
            frames = ()
            if not proposals:
                break
            drafted += 1
            tree.grow(tree.frontier, _numbered(proposals, tree.last_id + 1))
        self.drafter.expansion = usual
        return drafted

    def _export(self, sequence: "_Sequence") -> list[State]:
        start, count = sequence.exported, len(sequence.slots) - sequence.exported
        if count == 0:
            return []
        sequence.exported += count
        slots = torch.tensor(sequence.slots[start:], device=self.target.model.device)
        frames = []
        for exporter in self.exporters:
            payload = encode(exporter.export(self.target.pool, slots), self.dtype)
            frames.append(State(0, start, count, exporter.kind, self.dtype, (count, *exporter.shape), payload))
        return frames


def _numbered(proposals: Sequence[Proposal], first_id: int) -> list[GrownNode]:
    return [
        GrownNode(id_, each.parent_id(first_id), each.token, each.logp, each.draw)
        for id_, each in enumerate(proposals, first_id)
    ]


class _Sequence:
    """The target's half of a sequence: which slots hold the K/V of its processed tokens."""

    def __init__(self, target: PackedModel):
        self.slots: list[int] = []
        self.exported = 0
        self._target = target
        self._pool = SlotPool(target.pool.capacity)

    def verify(self, tree: TokenTree, settings: Settings, prompt_length: int) -> TargetChoices:
        """One pass over the unprocessed tokens and all nodes: commits the tokens that the rule chooses and keeps the
        K/V of their path. Returns the likeliest token behind each row."""
        chain = tree.tokens[len(self.slots) :]
        slots = self._pool.extend(self.slots[-1] if self.slots else None, len(chain) + len(tree))
        verify_input = make_verify_input(tree, range(1, 1 + len(tree)), settings, prompt_length=prompt_length)
        scheduled = ScheduledTokens(
            len(self.slots), tuple(chain), verify_input, epoch=0, slots=slots, past_slots=self.slots
        )
        logits = self._target.forward([scheduled]).logits.float()
        likeliest = logits.argmax(-1).tolist()
        rows = LogitRows(verify_input, logits, likeliest)
        tokens = RULES[settings.rule].walk(verify_input, rows)
        tree.commit(tokens)
        path = scheduled.path(tokens)
        kept = len(chain) + len(path)
        self._target.pool.move([slots[len(chain) + node] for node in path], slots[len(chain) : kept])
        self._pool.give(slots[kept:])
        self.slots = [*self.slots, *slots[:kept]]
        return TargetChoices(verify_input.frontier, verify_input.tokens, verify_input.parents, likeliest)
