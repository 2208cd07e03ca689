"""`lookahead`: n-grams that the target itself brings forth by Jacobi iteration. It needs no model.

Lookahead decoding (Fu et al. 2024, arXiv 2402.02057): beside the answer the target computes a window of guesses of
tokens further ahead, each from the guesses before it, and what it says there becomes the next window. The n-grams on
the way are a pool, from which the next tokens are proposed.

The window is a tree, so that it is verified as any other nodes, in the same pass: its oldest row is a chain below the
root, and from each of its nodes hang the newer guesses for the positions behind. That needs the target's choices
behind refused nodes, which are known beside the target and cross no link: there and back a guess would take a round
trip to become one step better. A drafter on a client has no window, and its pool is the text alone.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from common.drafters.best_first import Expansion, scores
from common.drafters.phrase_drafter import PhraseDrafter
from common.protocol.views import Proposal, TreeView

if TYPE_CHECKING:
    from common.drafters.load import DrafterConfig, DrafterFactory

_ROWS = 3
_COLUMNS = 15
_WINDOW_SHARE = 0.5  # of the nodes that the tree has room for
_HOPELESS = math.log(1e-6)
"""The cumulative log-probability of the window's nodes: they are computed where they are free."""

Path = tuple[int, ...]


def load(config: "DrafterConfig") -> "DrafterFactory":
    """There are no weights to load."""
    return lambda: LookaheadDrafter(config.expansion)


class LookaheadDrafter(PhraseDrafter):
    kind = "lookahead"

    def __init__(self, expansion: Expansion = Expansion()) -> None:  # noqa: B008
        super().__init__(expansion)
        self._window = JacobiWindow()

    def _propose(self, view: TreeView, room: int) -> list[Proposal]:
        if view.choices is None or self._window.frontier == len(view.tokens):
            return super()._propose(view, room)
        columns = min(_COLUMNS, int(_WINDOW_SHARE * room) // _ROWS)
        is_of_window = view.choices.frontier == self._window.frontier
        self._window.follow(view.tokens, self._chosen if is_of_window else {}, columns)
        proposals = super()._propose(view, room - columns * _ROWS)
        return proposals + _added(view, proposals, self._window.paths())[: room - len(proposals)]

    def _rewind(self, length: int) -> None:
        super()._rewind(length)
        self._window = JacobiWindow()


class JacobiWindow:
    """Guesses of the tokens behind the root: that of row r and column c is for the position r + c behind the first, and
    follows the oldest row up to column c and then, in that column, the rows before it. `frontier` is the number of
    tokens up to the root, 0 before there is one."""

    def __init__(self) -> None:
        self.frontier = 0
        self._rows: list[list[int]] = [[] for _ in range(_ROWS)]
        self._random = random.Random(0)

    def follow(self, tokens: Sequence[int], chosen: Mapping[Path, int], columns: int) -> None:
        """Makes the window for the root at the end of `tokens`, of so many columns: the newest row is what the target
        chose behind the last window. Where nothing is known, any token of the sequence is as good a guess."""
        newest = [chosen.get(path) for path in self._column_paths()]
        # All rows are now for one position further on.
        rows: list[Sequence[int | None]] = [*self._rows[1:], newest]
        behind = max(0, len(tokens) - self.frontier - 1)
        self._rows = [
            [self._random.choice(tokens) if token is None else token for token in _resized(row[behind:], columns)]
            for row in rows
        ]
        self.frontier = len(tokens)

    def _column_paths(self) -> Iterator[Path]:
        """The path to the newest guess of each column."""
        for column in range(len(self._rows[-1])):
            yield (*self._rows[0][: column + 1], *(row[column] for row in self._rows[1:]))

    def paths(self) -> list[Path]:
        """Of all guesses, each once, parents first."""
        found = (path[:length] for path in self._column_paths() for length in range(1, len(path) + 1))
        return list(dict.fromkeys(found))


def _resized(row: Sequence[int | None], columns: int) -> list[int | None]:
    return [*row[:columns], *[None] * (columns - len(row))]


def _added(view: TreeView, proposals: Sequence[Proposal], window: Sequence[Path]) -> list[Proposal]:
    """Proposals of the window's paths, as far as neither the view nor `proposals` has them."""
    paths, above = view.paths, scores(view)
    for index, each in enumerate(proposals, start=1):
        paths[-index], above[-index] = (*paths[each.parent], each.token), above[each.parent] + each.logp
    ids = {path: id_ for id_, path in paths.items()}
    added: list[Proposal] = []
    for path in window:
        if path not in ids:
            parent = ids[path[:-1]]
            added.append(Proposal(parent, path[-1], min(0.0, _HOPELESS - above[parent])))
            ids[path] = -len(proposals) - len(added)
            above[ids[path]] = min(above[parent], _HOPELESS)
    return added
