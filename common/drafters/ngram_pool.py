"""What followed which n-gram, and how far that can be trusted: what drafters without a model propose from.

It may not know trees, views or who writes the text.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

_PRIOR_TRIALS = 4.0

_COMPARED = 8
"""Occurrences of an n-gram in a text, the newest, that are looked at."""

_NONE = -1


@dataclass
class Record:
    """How often what was found in one way is what the target committed."""

    hits: float
    trials: float = _PRIOR_TRIALS

    @property
    def logp(self) -> float:
        return math.log(self.hits / self.trials)


class NgramPool(ABC):
    """The tokens that followed each n-gram of up to `longest` tokens, of which at most the `most` newest are told. How
    likely the target commits one is learnt for each length and rank; `trust` is the first guess of what the pool is
    worth, from 0 to 1."""

    def __init__(self, longest: int, most: int, trust: float = 1.0):
        self.longest = longest
        self._most = most
        self._records = {
            (length, rank): Record(_PRIOR_TRIALS * trust * length / (length + 2) / (rank + 1))
            for length in range(1, longest + 1)
            for rank in range(most)
        }

    def after(self, tail: Sequence[int]) -> Mapping[int, Record]:
        """At most `most` tokens that may come next, those behind the longest n-gram first, and the record of each."""
        found: dict[int, Record] = {}
        for gram in self._grams(tail):
            for rank, token in enumerate(islice(dict.fromkeys(self._followed(gram)), self._most)):
                if len(found) == self._most:
                    return found
                found.setdefault(token, self._records[len(gram), rank])
        return found

    def learn(self, tail: Sequence[int], token: int) -> None:
        """Learns that the target committed `token` next, whether or not it was proposed."""
        for each, record in self.after(tail).items():
            record.trials += 1
            record.hits += each == token

    @abstractmethod
    def _followed(self, gram: tuple[int, ...]) -> Sequence[int]:
        """What came behind an n-gram, the newest first."""

    def _grams(self, tail: Sequence[int]) -> list[tuple[int, ...]]:
        """The n-grams that end `tail`, the longest first."""
        return [tuple(tail[-length:]) for length in range(min(self.longest, len(tail)), 0, -1)]


class TextPool(NgramPool):
    """The n-grams of one text, which grows at its end and is shortened there. The occurrences of an n-gram are linked,
    as in the hash chains of LZ77 compressors, so that all take memory for `longest` numbers a token."""

    def __init__(self, longest: int, most: int):
        super().__init__(longest, most)
        self._text: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}  # where what follows an n-gram lies
        self._earlier: list[int] = []  # of each position, for each length of n-grams, the one before; _NONE for none

    def append(self, token: int) -> None:
        links = [_NONE] * self.longest
        for gram in self._grams(self._text[-self.longest :]):
            links[len(gram) - 1] = self._newest.get(gram, _NONE)
            self._newest[gram] = len(self._text)
        self._earlier += links
        self._text.append(token)

    def shorten(self, length: int) -> None:
        """Takes back all tokens behind the first `length`. What was learnt of the pool's worth stays."""
        while len(self._text) > length:
            self._text.pop()
            links = self._earlier[-self.longest :]
            del self._earlier[-self.longest :]
            for gram in self._grams(self._text[-self.longest :]):
                self._newest[gram] = links[len(gram) - 1]
                if self._newest[gram] == _NONE:
                    del self._newest[gram]

    def _followed(self, gram: tuple[int, ...]) -> list[int]:
        found: list[int] = []
        at = self._newest.get(gram, _NONE)
        while at != _NONE and len(found) < _COMPARED:
            found.append(self._text[at])
            at = self._earlier[at * self.longest + len(gram) - 1]
        return found


class PhrasePool(NgramPool):
    """N-grams without a text, the newest `grams` of them, each with the `most` newest tokens behind it."""

    def __init__(self, longest: int, most: int, trust: float, grams: int):
        super().__init__(longest, most, trust)
        self._size = grams
        self._next: dict[tuple[int, ...], list[int]] = {}

    def add(self, before: Sequence[int], token: int) -> None:
        """`token` follows each of the n-grams that end `before`."""
        for gram in self._grams(before):
            others = [each for each in self._next.pop(gram, ()) if each != token]
            self._next[gram] = [token, *others[: self._most - 1]]
        while len(self._next) > self._size:
            del self._next[next(iter(self._next))]

    def clear(self) -> None:
        """Forgets the n-grams, not what they are worth."""
        self._next.clear()

    def _followed(self, gram: tuple[int, ...]) -> Sequence[int]:
        return self._next.get(gram, ())
