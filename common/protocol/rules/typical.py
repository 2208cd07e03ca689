"""`typical`: accepts what the target finds plausible. Faster and lossy: it promises no distribution.

A node is accepted if p(token) > min(EPSILON, DELTA exp(-entropy of p)), and the deepest run of accepted nodes is taken
(Medusa, Cai et al. 2024). Behind it comes the target's own choice, which may itself have been drafted. At temperature 0
all probability lies on one token, so that the rule is greedy.
"""

import numpy as np

from common.protocol.rules.verify_input import TargetRows, VerifyInput

EPSILON = 0.09
DELTA = 0.3

_ROWS = 32
"""Runs are searched behind so many rows, and behind two more for each token that the pass commits: each row takes time
that all sessions of the pass wait for, and trees that are meant to be accepted need fewer."""


def walk(verify_input: VerifyInput, target: TargetRows) -> list[int]:
    """The tokens that a pass commits below its root; the last of them is the target's choice."""
    children = verify_input.children()
    tokens: list[int] = []
    row: int | None = 0
    searched = 0
    while row is not None:
        run, rows = _deepest_run(row, verify_input, children, target, _ROWS + 2 * len(tokens) - searched)
        searched += rows
        tokens += (int(verify_input.tokens[each]) for each in run)
        end = run[-1] if run else row
        token = target.choice(end)
        tokens.append(token)
        row = next((child for child in children[end] if verify_input.tokens[child] == token), None)
    return tokens


def _deepest_run(
    row: int, verify_input: VerifyInput, children: list[list[int]], target: TargetRows, most_rows: int
) -> tuple[list[int], int]:
    """The longest chain of accepted rows below `row`, and behind how many rows it was searched: `most_rows`, and two
    more for each row of the chain. Of equally long ones the first: siblings are tried in the order of their rows, those
    that the drafter found likeliest first."""
    runs: dict[int, list[int]] = {row: []}
    pending, searched, longest = [row], 0, 0
    for above in pending:
        if not children[above]:
            continue
        if searched >= most_rows + 2 * longest:
            break
        searched += 1
        p = target.probabilities(above)
        least = threshold(p)
        for child in children[above]:
            if p[verify_input.tokens[child]] > least:
                runs[child] = [*runs[above], child]
                pending.append(child)
                longest = len(runs[child])
    return max(runs.values(), key=len), searched


def threshold(p: np.ndarray) -> float:
    """The probability above which a token is accepted, for a distribution `p [vocabulary]`."""
    some = p[p > 0]
    entropy = -float((some * np.log(some)).sum())
    return float(min(EPSILON, DELTA * np.exp(-entropy)))
