"""`independent`: any causal LM with the target's tokenizer drafts by itself. Needs no draft state.

Keeps the K/V of committed tokens and of live nodes. A commit moves slots from the tree to the past and computes
nothing again; only committed tokens that were never drafted go through the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from common.drafters.best_first import Candidates, Expansion, choose
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.models.slots import SlotPool
from common.protocol.prefix import common_prefix
from common.protocol.views import NodeView, Proposal, TreeView

_CHUNK = 512  # committed tokens that one forward catches up with


@dataclass
class _Branch:
    """A live node whose K/V the drafter holds."""

    parent: int  # 0 where it hangs from the root
    token: int
    slot: int
    candidates: Candidates


class IndependentDrafter:
    kind = "independent"

    def __init__(self, model: PackedModel, vocab_size: int, expansion: Expansion = Expansion()):  # noqa: B008
        """`vocab_size` is the target's; checkpoints of one tokenizer may be padded to different sizes."""
        self._model = model
        self._vocab_size = vocab_size
        self._expansion = expansion
        self._slots = SlotPool(model.pool.capacity)
        self._past: list[int] = []
        self._past_slots: list[int] = []
        self._branches: dict[int, _Branch] = {}  # parents first
        self._root_candidates: Candidates | None = None
        self.computed = 0  # tokens that have been through the model

    def draft(self, view: TreeView) -> Sequence[Proposal]:
        self._follow(view.tokens)
        self._prune({node.id for node in view.nodes})
        missing = view.tokens[len(self._past) :]
        while len(missing) > _CHUNK:
            self._forward(missing[:_CHUNK], [])
            missing = missing[_CHUNK:]
        fresh = [node for node in view.nodes if node.id not in self._branches]
        if missing or fresh:
            self._forward(missing, fresh)
        candidates = {id_: branch.candidates for id_, branch in self._branches.items()}
        return choose(view, {0: self._root_candidates or (), **candidates}, self._expansion)

    def _follow(self, tokens: tuple[int, ...]) -> None:
        """Re-roots along committed tokens, or goes back to where a rewritten history begins to differ."""
        if tuple(self._past) != tokens[: len(self._past)]:
            self._go_back(tokens)
        for token in tokens[len(self._past) :]:
            child = next((i for i, b in self._branches.items() if b.parent == 0 and b.token == token), None)
            if child is None:
                break
            self._take_over(child)
        if len(self._past) < len(tokens) or self._root_candidates is None:
            self._prune(set())
            self._drop_past(min(len(self._past), len(tokens) - 1))

    def _go_back(self, tokens: tuple[int, ...]) -> None:
        self._prune(set())
        self._drop_past(common_prefix(self._past, tokens))

    def _take_over(self, child: int) -> None:
        root = self._branches.pop(child)
        self._past.append(root.token)
        self._past_slots.append(root.slot)
        self._root_candidates = root.candidates
        for id_, branch in list(self._branches.items()):
            if branch.parent == child:
                branch.parent = 0
            elif branch.parent == 0 or branch.parent not in self._branches:
                self._slots.give([self._branches.pop(id_).slot])

    def _drop_past(self, keep: int) -> None:
        self._slots.give(self._past_slots[keep:])
        if keep < len(self._past):
            self._root_candidates = None
        del self._past[keep:], self._past_slots[keep:]

    def _prune(self, live: set[int]) -> None:
        dead = [id_ for id_ in self._branches if id_ not in live]
        self._slots.give([self._branches.pop(id_).slot for id_ in dead])

    def _forward(self, chain: Sequence[int], fresh: Sequence[NodeView]) -> None:
        """Runs committed tokens and then nodes through the model, in one segment."""
        held = list(self._branches)
        ahead = len(held) + len(chain)
        index = {id_: i for i, id_ in enumerate(held)} | {node.id: ahead + i for i, node in enumerate(fresh)}
        root = ahead - 1 if chain else -1
        count = len(chain) + len(fresh)
        slots = self._slots.take(count)
        output = self._model.forward(
            [
                Segment(
                    tokens=[*chain, *(node.token for node in fresh)],
                    slots=[*(self._branches[id_].slot for id_ in held), *slots],
                    parents=[
                        *(index.get(self._branches[id_].parent, -1) for id_ in held),
                        *range(-1, len(chain) - 1),
                        *(index.get(node.parent, root) for node in fresh),
                    ],
                    past_slots=list(self._past_slots),
                    wanted=range(max(0, len(chain) - 1), count),
                )
            ]
        )
        self.computed += count
        candidates = self._candidates(output.logits)
        if chain:
            self._past += chain
            self._past_slots += slots[: len(chain)]
            self._root_candidates = candidates.pop(0)
        for node, slot, offered in zip(fresh, slots[len(chain) :], candidates, strict=True):
            self._branches[node.id] = _Branch(node.parent, node.token, slot, offered)

    def _candidates(self, logits: torch.Tensor) -> list[Candidates]:
        """The likeliest next tokens of each row of `logits [rows, the draft's vocabulary]`."""
        logps = torch.log_softmax(logits[:, : self._vocab_size].float(), dim=-1)
        top = torch.topk(logps, min(self._expansion.children, logps.shape[-1]))
        return [
            list(zip(tokens, values, strict=True))
            for tokens, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]
