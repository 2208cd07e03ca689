"""The tokens before the next one of each row of logits. It may not know logits or what the tokens are read for.

Rows share all of a long text but their last few tokens: what is counted in it is counted once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


class Text:
    """Tokens that precede every row; they may not change while it is in use."""

    def __init__(self, tokens: Sequence[int]):
        self.tokens = tokens
        self._said: dict[int, Mapping[int, int]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def distinct(self) -> frozenset[int]:
        return frozenset(self.tokens)

    def said(self, start: int) -> Mapping[int, int]:
        """How often each token comes from position `start` on."""
        if start not in self._said:
            self._said[start] = Counter(self.tokens[start:])
        return self._said[start]


@dataclass(frozen=True, slots=True, eq=False)
class Preceding:
    """`text`, and each row's own tokens behind it."""

    text: Text
    paths: Sequence[Sequence[int]]

    def paths_from(self, start: int) -> list[Sequence[int]]:
        """Those of each row's own tokens whose positions are `start` or later."""
        skipped = max(0, start - len(self.text))
        return [path[skipped:] for path in self.paths]


NOTHING = Preceding(Text(()), ())
"""For processors that do not ask."""
