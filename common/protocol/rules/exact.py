"""`greedy`: the target's argmax, token for token.

At every processed node the target's argmax is the next token. A processed child that carries it is accepted and
the walk goes on below it; otherwise that argmax is the bonus token and the walk ends. What was drafted changes
how many tokens a pass commits, never which (Leviathan et al. 2023, at temperature 0; SpecInfer's tree walk).
"""

from collections.abc import Mapping

from common.protocol.tree import Node


def walk(root: Node, choices: Mapping[Node, int]) -> list[int]:
    """The tokens that a pass commits below `root`; `choices` maps each processed node to the target's argmax.

    The root must have been processed. The last token is the bonus token.
    """
    tokens = [choices[root]]
    node = root.children.get(tokens[-1])
    while node is not None and node in choices:
        tokens.append(choices[node])
        node = node.children.get(tokens[-1])
    return tokens
