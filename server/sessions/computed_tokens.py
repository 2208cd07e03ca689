"""The tokens of one sequence that have been through the target: the proof that none is computed twice. Pure.

It may not know slots or who schedules the tokens.
"""

from collections.abc import Sequence

import numpy as np

from common.protocol.prefix import common_prefix
from common.protocol.scheduled_tokens import ScheduledTokens


class ComputedTokens:
    def __init__(self) -> None:
        self._tokens: list[int] = []  # by position

    def count_repeats(self, scheduled: ScheduledTokens) -> int:
        """How many tokens of its chain were computed before, at the same positions of the same sequence.

        It counts what the server lost. A pass that was discarded whole had computed nothing that could be kept. The
        root is no repeat: a turn that begins where the last one ended needs its logits again.
        """
        chain = scheduled.chain if scheduled.verify_input is None else scheduled.chain[:-1]
        return common_prefix(self._tokens[scheduled.start : scheduled.start + len(chain)], chain)

    def add(self, scheduled: ScheduledTokens, committed: Sequence[int]) -> None:
        """A pass computed the chain, and what its nodes carried of the `committed` tokens.

        Found by a walk of its own over the rows of the pass, parents first, so that it does not repeat a mistake of the
        one that says whose K/V are kept.
        """
        computed = list(scheduled.chain)
        if scheduled.verify_input is not None:
            parents, tokens = np.asarray(scheduled.verify_input.parents), np.asarray(scheduled.verify_input.tokens)
            end, missing = 0, list(committed[::-1])
            for row, below in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True)):
                if missing and below == (end, missing[-1]):
                    end = row
                    computed.append(missing.pop())
        if self._tokens[scheduled.start : scheduled.start + len(computed)] != computed:
            self._tokens[scheduled.start :] = computed

    def adopt(self, start: int, tokens: Sequence[int]) -> None:
        """The K/V of these tokens of its sequence, computed for another one, are its own from now on."""
        if len(self._tokens) < start + len(tokens):
            self._tokens[start:] = tokens

    def follow(self, kept: Sequence[int]) -> None:
        """A turn begins, for which the client kept these tokens of its sequence. What it did not keep lost its K/V: to
        compute that again, should the client send it again, is no repeat."""
        if self._tokens:
            del self._tokens[common_prefix(self._tokens, kept) :]

    def clear(self) -> None:
        """K/V were given up on purpose: to compute the same tokens again is no repeat."""
        self._tokens.clear()
