"""A target and drafters that replay recorded acceptance, so that thousands of clients take minutes.

A token says where it stands: each recorded answer has consecutive tokens of its own, the first of which ends its
prompt, and the target's next token is the one after it. Every other token is beside all answers. So target and drafters
need no memory of sessions. May know rules, views and recordings. It may not know sessions, links or time.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import numpy as np

from common.drafters.best_first import Candidates, Expansion, choose, rescored
from common.integers import Integers
from common.protocol.messages import State, StateRequest
from common.protocol.rules import RULES
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.views import Proposal, TreeView
from netem.experiments.capacity.acceptance import Logps, Recording
from server.passes.batch import ChosenTokens, PassOutcome

END = 0
_BESIDE = 32_749  # tokens beside all answers: a prime, so that descendants do not soon repeat
_SPREAD = 17  # more than the candidates of a node, so that siblings differ


class Replay:
    """The tokens of a recording."""

    def __init__(self, recording: Recording):
        self._recording = recording
        lengths = [len(answer.offers) for answer in recording.answers]
        # An answer's tokens, and the last one of its prompt; its own last one is END.
        self._firsts = list(accumulate(lengths, initial=END + 1))
        self._offers = [offer for answer in recording.answers for offer in answer.offers]
        self._lasts = {first + length - 1 for first, length in zip(self._firsts, lengths, strict=False)}
        self._beside = self._firsts[-1]
        self.vocabulary = self._beside + _BESIDE
        self.candidates = cache(self._candidates)

    def prompt(self, answer: int, begun: int = 0) -> list[int]:
        """The prompt of recorded answer number `answer`, in a cycle, and `begun` tokens of that answer."""
        index = answer % len(self._recording.answers)
        recorded = self._recording.answers[index]
        first = self._firsts[index]
        return [self._beside] * (recorded.prompt_tokens - 1) + list(range(first, first + begun + 1))

    def tokens(self, answer: int) -> int:
        """The length of that answer, its end token included."""
        return len(self._recording.answers[answer % len(self._recording.answers)].offers)

    def next(self, token: int) -> int:
        """What the target puts behind a token of an answer."""
        return END if token in self._lasts else token + 1

    def _candidates(self, token: int) -> Candidates:
        if not END < token < self._beside:
            return self._named(token, self._recording.beside[token % len(self._recording.beside)], None)
        offer = self._offers[token - END - 1]
        return self._named(token, offer.logps, offer.taken)

    def _named(self, token: int, logps: Logps, taken: int | None) -> Candidates:
        return [
            (
                self.next(token) if index == taken else self._beside + (token * _SPREAD + index) % _BESIDE,
                logp,
            )
            for index, logp in enumerate(logps)
        ]


class ReplayTarget:
    """Replaces a target; for `greedy`."""

    def __init__(self, replay: Replay):
        self._replay = replay

    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        return [self._verify(each) for each in scheduled]

    def _verify(self, scheduled: ScheduledTokens) -> PassOutcome:
        verify_input = scheduled.verify_input
        if verify_input is None:
            return ChosenTokens(())
        rows = _ReplayRows(verify_input.tokens, self._replay)
        return ChosenTokens(RULES[verify_input.rule].walk(verify_input, rows))


class _ReplayRows:
    def __init__(self, tokens: Integers, replay: Replay):
        self._tokens, self._replay = tokens, replay

    def choice(self, row: int) -> int:
        return self._replay.next(int(self._tokens[row]))

    def probabilities(self, row: int) -> "np.ndarray":
        raise NotImplementedError("recorded acceptance is that of greedy answers")


class ReplayDrafter:
    """Expands best first what was recorded, as the drafters with networks do; for clients and servers. It needs no
    draft state, whose effect is part of what was recorded."""

    kind = "replay"
    state: StateRequest | None = None

    def __init__(self, replay: Replay, expansion: Expansion = Expansion()):  # noqa: B008
        self.expansion = expansion
        self._replay = replay

    def draft(self, view: TreeView, states: "Sequence[State] | np.ndarray" = ()) -> Sequence[Proposal]:
        """states: of a client's drafter; a server's gets slots. Neither is looked at."""
        candidates = {0: self._replay.candidates(view.tokens[-1])}
        candidates |= {node.id: self._replay.candidates(node.token) for node in view.nodes}
        return choose(rescored(view, candidates), candidates, self.expansion)


class ReplayDrafterFactory:
    """Makes the server's drafters, with the bounds of those with networks."""

    def __init__(self, replay: Replay, expansion: Expansion):
        self._replay = replay
        self._expansion = expansion

    def make(self, state_request: StateRequest | None) -> ReplayDrafter:
        return ReplayDrafter(self._replay, self._expansion)
