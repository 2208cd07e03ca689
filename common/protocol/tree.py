"""The token tree that client and server share, and the identity rule that keeps both copies equal.

Knows the committed sequence and the live nodes below its last token, the root. It does not know which nodes the target
has processed, who proposed them, or when.

Identity is by path, not by id, because nodes are often in flight while their parent is being committed:

- a node whose parent is, or aliases, committed position p becomes a child of the root if p is the root; if p is
  older and the committed token at p + 1 equals the node's token, the node's id aliases position p + 1; otherwise
  the node is dead;
- a node whose live parent already has a child with that token aliases that child;
- a node beyond the longest sequence is dead;
- a parent id that was seen before but is no longer known is dead, and so is the node;
- a parent id that was never seen breaks the protocol.

In a tree of groups, as some rules need, the children of a node come in one Grow and name it by one id; others that come
for that node are dead, except that they too alias a child with their token.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import LEAST_LOGP, Draw, GrownNode
from common.protocol.tree_rows import TreeRows
from common.protocol.views import NodeView, Proposal, TreeView

_score = attrgetter("score")

FIRST_SERVER_NODE_ID = 1 << 62
"""Ids from here on belong to server-drafted nodes, which no Grow brought and no frame names."""


class Node:
    """A proposed token at an absolute `position`; `score` is its cumulative log-probability.

    Scores share an arbitrary origin, so only differences within one tree mean anything.
    """

    __slots__ = ("aliases", "children", "draw", "grown_by", "id", "parent", "position", "row", "score", "token")

    def __init__(
        self,
        id: int,  # noqa: A002
        parent: "Node | None",
        token: int,
        position: int,
        score: float,
        draw: Draw | None = None,
    ):
        self.id = id
        self.parent = parent
        self.token = token
        self.position = position
        self.score = score
        self.draw = draw
        self.children: dict[int, Node] = {}
        self.grown_by = (0, 0)  # the number of the Grow that brought the first of the children, and their name for this
        self.aliases: list[int] = []
        self.row = 0  # of those of its tree, when they were made

    def below(self) -> "set[Node]":
        """Everything below this node."""
        found: set[Node] = set()
        level = list(self.children.values())
        while level:
            found.update(level)
            level = [child for node in level for child in node.children.values()]
        return found


class TokenTree:
    """The committed sequence and the live nodes that hang from its last token, the root."""

    def __init__(self, tokens: Sequence[int], context: float = math.inf):
        """`context`: positions of the longest sequence."""
        self.tokens = list(tokens)
        self.grouped = False  # whether siblings are one group; set before anything grows
        self.last_id = 0
        self.stale = 0  # nodes that arrived dead
        self._context = context
        self._live: dict[int, Node] = {}
        self._committed: dict[int, int] = {}  # ids of committed positions that the client may still name
        self._size = 0
        self._grows = 0
        self._rows: TreeRows | None = None  # of the nodes as they are now, once they are asked for
        self._last_server_node_id = FIRST_SERVER_NODE_ID - 1
        self.root = self._fresh_root()

    @property
    def frontier(self) -> int:
        return len(self.tokens)

    def holds(self, start: int, tokens: Sequence[int]) -> bool:
        """Whether these tokens are committed, from position `start` on."""
        return self.tokens[start : start + len(tokens)] == list(tokens)

    def __len__(self) -> int:
        """The number of live nodes, the root not counted."""
        return self._size

    @property
    def names(self) -> int:
        """The number of ids that are still valid: of live nodes, their aliases and committed positions."""
        return len(self._live) + len(self._committed)

    def nodes(self) -> Iterator[Node]:
        """All live nodes, parents first and siblings in the order in which they came, the root not included."""
        # A node with aliases has several ids.
        return iter(dict.fromkeys(self._live.values()))

    @property
    def rows(self) -> TreeRows:
        """Root and live nodes as arrays, made once for each state of the tree."""
        if self._rows is None:
            self._rows = self._make_rows()
        return self._rows

    def view(self) -> TreeView:
        origin = self.root.score
        return TreeView(
            tuple(self.tokens),
            tuple(
                NodeView(node.id, self._parent_id(node), node.token, node.position, node.score - origin)
                for node in self.nodes()
            ),
        )

    def grown(self, nodes: Iterable[Node]) -> list[GrownNode]:
        """The nodes as a Grow at the current frontier carries them."""
        grown = []
        for node in nodes:
            parent = node.parent or self.root
            logp = _bounded(node.score - parent.score)  # of two sums, which rounding may take outside
            grown.append(GrownNode(node.id, self._parent_id(node), node.token, logp, node.draw))
        return grown

    def renumber(self) -> list[GrownNode]:
        """Gives every live node a new id, for a new stream, which knows none of the old ids."""
        nodes = list(self.nodes())
        self._live = {}
        for node in nodes:
            self.last_id += 1
            node.id, node.aliases = self.last_id, []
            self._live[node.id] = node
        return self.grown(nodes)

    def grow(self, frontier: int, nodes: Iterable[GrownNode]) -> list[Node]:
        """Adds nodes proposed by a side that knew `frontier` committed tokens; returns those that are new.

        Ids at or below the last one seen are repeats and ignored. Raises PeerError for a frontier ahead of this
        one and for a parent that was never seen; nodes before the faulty one stay.
        """
        if not 0 < frontier <= self.frontier:
            raise PeerError(f"a Grow names frontier {frontier}, but only {self.frontier} tokens are committed")
        self._grows += 1
        fresh = []
        for grown in nodes:
            if grown.id <= self.last_id:
                self.stale += 1
                continue
            if grown.parent > self.last_id:
                raise PeerError(f"node {grown.id} hangs from node {grown.parent}, which was never sent")
            self.last_id = grown.id
            node = self._insert(frontier, grown)
            if node is not None:
                fresh.append(node)
        return fresh

    def add_server_drafted(self, frontier: int, proposals: Sequence[Proposal]) -> list[Node]:
        """Adds server-drafted nodes, proposed from a view of `frontier` tokens; returns those that are new.

        A client's node with the same path becomes their alias later. Not for a tree of groups. Raises MisuseError for a
        frontier ahead of this one.
        """
        if not 0 < frontier <= self.frontier:
            raise MisuseError(f"nodes were drafted from {frontier} tokens, but only {self.frontier} are committed")
        first = self._last_server_node_id + 1
        fresh = []
        for proposal in proposals:
            self._last_server_node_id += 1
            parent = proposal.parent_id(first)
            node = self._insert(frontier, GrownNode(self._last_server_node_id, parent, proposal.token, proposal.logp))
            if node is not None:
                fresh.append(node)
        # No later level names an id that is only an alias.
        own = {node.id for node in fresh}
        for id_ in range(first, self._last_server_node_id + 1):
            if id_ not in own:
                self._forget_alias(id_)
        return fresh

    def _forget_alias(self, id_: int) -> None:
        self._committed.pop(id_, None)
        twin = self._live.pop(id_, None)
        if twin is not None:
            twin.aliases.remove(id_)

    def note(self, nodes: Iterable[GrownNode]) -> None:
        """Counts the nodes as seen and dead, for a Grow that came too late and was not applied."""
        ids = [grown.id for grown in nodes]
        self.last_id = max(self.last_id, min(max(ids, default=0), FIRST_SERVER_NODE_ID - 1))
        self.stale += len(ids)

    def commit(self, tokens: Iterable[int]) -> list[Node]:
        """Commits tokens and moves the root along them; returns the nodes that carried them, first token first.

        Nodes below the committed path stay, all others die.
        """
        carried = []
        for token in tokens:
            position = self.frontier
            chosen = self.root.children.get(token)
            self.tokens.append(token)
            if chosen is None:
                self.root = self._fresh_root()
                continue
            carried.append(chosen)
            for alias in (chosen.id, *chosen.aliases):
                self._committed[alias] = position
            chosen.parent = None
            self.root = chosen
        live = self.root.below()
        self._size = len(live)
        self._live = {id_: node for id_, node in self._live.items() if node in live} if live else {}
        self._rows = None
        return carried

    def forget(self, frontier: int) -> None:
        """Drops aliases of positions below a frontier that the client has acknowledged."""
        self._committed = {id_: p for id_, p in self._committed.items() if p >= frontier}

    def rewrite(self, keep: int, tokens: Iterable[int]) -> None:
        """Keeps the first `keep` tokens, appends others, and drops every node. Ids stay seen."""
        self.tokens[keep:] = tokens
        self._clear()

    def _clear(self) -> None:
        self._size = 0
        self._live = {}
        self._committed = {}
        self.root = self._fresh_root()
        self._rows = None

    def _make_rows(self) -> TreeRows:
        nodes = list(self.nodes())
        if not self.grouped:
            # Stable, and no node is likelier than its parent: parents stay first.
            nodes.sort(key=_score, reverse=True)
        nodes.insert(0, self.root)
        for row, node in enumerate(nodes):
            node.row = row
        depths = np.array([node.position - self.root.position for node in nodes])
        logps = [node.score - self.root.score for node in nodes]
        return TreeRows(
            tokens=np.array([node.token for node in nodes]),
            parents=np.array([-1 if node.parent is None else node.parent.row for node in nodes]),
            depths=depths,
            deepest=int(depths.max()),
            logps=np.array(logps),
            # Not numpy's exp, whose last bit depends on the processor.
            probabilities=np.array([math.exp(logp) for logp in logps]),
            grouped=self.grouped,
            draws={node.row: node.draw for node in nodes if self.grouped and node.parent and node.draw},
        )

    def _fresh_root(self) -> Node:
        return Node(0, None, self.tokens[-1], self.frontier - 1, 0.0)

    def _parent_id(self, node: Node) -> int:
        return 0 if node.parent is None or node.parent is self.root else node.parent.id

    def _insert(self, frontier: int, grown: GrownNode) -> Node | None:
        parent = self._live.get(grown.parent)
        if parent is None:
            position = frontier - 1 if grown.parent == 0 else self._committed.get(grown.parent)
            if position is None:
                self.stale += 1
                return None
            if position < self.frontier - 1:
                if self.tokens[position + 1] == grown.token:
                    self._committed[grown.id] = position + 1
                else:
                    self.stale += 1
                return None
            parent = self.root
        twin = parent.children.get(grown.token)
        if twin is not None:
            twin.aliases.append(grown.id)
            self._live[grown.id] = twin
            return None
        if parent.position + 1 >= self._context:
            self.stale += 1
            return None
        grow = (self._grows, grown.parent)
        if not parent.children:
            parent.grown_by = grow
        elif self.grouped and parent.grown_by != grow:
            self.stale += 1
            return None
        score = parent.score + _bounded(grown.logp)  # a server drafter's value is not checked
        node = Node(grown.id, parent, grown.token, parent.position + 1, score, grown.draw)
        parent.children[grown.token] = node
        self._rows = None
        self._live[grown.id] = node
        self._size += 1
        return node


def _bounded(logp: float) -> float:
    """Clamped to the valid range; NaN becomes the minimum."""
    return min(0.0, max(LEAST_LOGP, logp))
