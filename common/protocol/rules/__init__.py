"""How a pass chooses tokens: one rule, one file, one line in this table."""

from collections.abc import Callable, Mapping

from common.protocol.rules import greedy
from common.protocol.tree import Node

Walk = Callable[[Node, Mapping[Node, int]], list[int]]

RULES: dict[str, Walk] = {"greedy": greedy.walk}
