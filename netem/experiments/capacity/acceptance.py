"""Recorded acceptance: what a draft model offered at each position of an answer, and which of it the target took.

May know drafters and views, so that one can be recorded while it drafts. It may not know links, servers or time.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.protocol.errors import OutriderError
from common.protocol.messages import State
from common.protocol.views import Proposal, TreeView

_EVERYTHING = Expansion(breadth=100_000, children=8, nodes=200_000, least_probability=1e-30)
_LEAST_BESIDE = 4096
"""At least so many are kept where there are more, evenly spread."""

_STATED_LOGPS = (math.log(0.77), *(math.log(0.18 / 7) for _ in range(7)))

Logps = tuple[float, ...]
"""Log-probabilities of the candidates of one position, likeliest first."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The candidates of one position of an answer. taken: the index of the target's token among them; None where it is
    not one of them."""

    logps: Logps
    taken: int | None


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The offers of every position of an answer to a prompt of so many tokens."""

    prompt_tokens: int
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Answers, and the candidates of nodes that the target did not take (`beside`)."""

    answers: tuple[RecordedAnswer, ...]
    beside: tuple[Logps, ...]

    def strung(self, tokens: int) -> "Recording":
        """The same with longer answers: each goes on with those that follow it, until it has so many tokens."""
        strung = []
        for index, answer in enumerate(self.answers):
            offers: tuple[Offer, ...] = ()
            while len(offers) < tokens:
                offers += self.answers[index % len(self.answers)].offers
                index += 1
            strung.append(RecordedAnswer(answer.prompt_tokens, offers[:tokens]))
        return Recording(tuple(strung), self.beside)

    def coverage(self, candidates: int) -> float:
        """The share of tokens that were among so many of the likeliest candidates."""
        taken = [offer.taken for answer in self.answers for offer in answer.offers]
        return fmean(each is not None and each < candidates for each in taken)

    def as_dict(self) -> dict[str, float]:
        return {
            "answers": len(self.answers),
            "tokens": sum(len(answer.offers) for answer in self.answers),
            "prompt_tokens_mean": fmean(answer.prompt_tokens for answer in self.answers),
            "coverage_of_1": self.coverage(1),
            "coverage_of_8": self.coverage(8),
        }


def stated_recording(answers: int, tokens: int, prompt_tokens: int, seed: int) -> Recording:
    """Answers in which, as with the demo's `moa`, 77% of tokens are the likeliest candidate and 95% one of eight, drawn
    independently: for runs that load no model."""
    draws = random.Random(seed)

    def offer() -> Offer:
        draw = draws.random()
        return Offer(_STATED_LOGPS, 0 if draw < 0.77 else draws.randrange(1, 8) if draw < 0.95 else None)

    each = [RecordedAnswer(prompt_tokens, tuple(offer() for _ in range(tokens))) for _ in range(answers)]
    return Recording(tuple(each), (_STATED_LOGPS,))


class RecordingDrafter:
    """A drafter that remembers the candidates of every node it has expanded, as they were when it did so first: the
    deepest look ahead, with the least draft state."""

    def __init__(self, drafter: Drafter):
        self.kind = drafter.kind
        self.state = drafter.state
        self.expansion = Expansion()
        self._drafter = drafter
        self._seen: dict[tuple[int, ...], list[tuple[int, float]]] = {}  # by the whole sequence up to a node

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self._drafter.expansion = _EVERYTHING
        # No node's children are taken, as a node that has been expanded would offer only the rest of them.
        for node, offered in _by_parent(self._drafter.draft(view, states)).items():
            self._seen.setdefault(_sequence(view, node), offered)
        self._drafter.expansion = self.expansion
        return self._drafter.draft(view)

    def recorded(self, prompt: Sequence[int], answer: Sequence[int]) -> tuple[list[Offer | None], list[Logps]]:
        """The offer of each position of the answer, None where nothing was drafted there; and the candidates of nodes
        beside it."""
        whole = (*prompt, *answer)
        path = {whole[:end]: whole[end] for end in range(len(prompt), len(whole))}
        offers = [self._offer(before, token) for before, token in path.items()]
        return offers, [_logps(offered) for before, offered in self._seen.items() if before not in path]

    def _offer(self, before: tuple[int, ...], token: int) -> Offer | None:
        offered = self._seen.get(before)
        if offered is None:
            return None
        indices = [index for index, (candidate, _) in enumerate(offered) if candidate == token]
        return Offer(_logps(offered), indices[0] if indices else None)


def make_recording(answers: Iterable[tuple[int, Sequence[Offer | None]]], beside: Sequence[Logps]) -> Recording:
    """From the tokens of each prompt and the offers of its answer. A position at which nothing was drafted gets the
    offer of the one before it, or after it at the beginning. Raises OutriderError for an answer without any, for which
    no recording could stand."""
    kept = [RecordedAnswer(prompt_tokens, tuple(_without_holes(offers))) for prompt_tokens, offers in answers]
    if not all(each.offers for each in kept):
        raise OutriderError("an answer ended before anything was drafted for it: ask other prompts with --seed")
    return Recording(tuple(kept), tuple(beside[:: max(1, len(beside) // _LEAST_BESIDE)]))


def _without_holes(offers: Sequence[Offer | None]) -> list[Offer]:
    known = [offer for offer in offers if offer is not None]
    filled: list[Offer] = []
    for offer in offers:
        if offer is not None:
            filled.append(offer)
        elif known:
            filled.append(filled[-1] if filled else known[0])
    return filled


def _by_parent(proposals: Iterable[Proposal]) -> Mapping[int, list[tuple[int, float]]]:
    by_parent: dict[int, list[tuple[int, float]]] = {}
    for proposal in proposals:
        by_parent.setdefault(proposal.parent, []).append((proposal.token, proposal.logp))
    return by_parent


def _sequence(view: TreeView, node: int) -> tuple[int, ...]:
    """All tokens up to a node of the view, 0 for its root."""
    nodes = {each.id: each for each in view.nodes}
    path: list[int] = []
    while node:
        path.append(nodes[node].token)
        node = nodes[node].parent
    return (*view.tokens, *path[::-1])


def _logps(offered: Sequence[tuple[int, float]]) -> Logps:
    return tuple(logp for _, logp in offered)
