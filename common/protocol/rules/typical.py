"""`typical`: accepts what the target finds plausible. Faster and lossy: it promises no distribution.

A node is accepted if p(token) > min(EPSILON, DELTA exp(-entropy of p)), and the deepest run of accepted nodes is taken
(Medusa, Cai et al. 2024). Behind it comes the target's own choice, which may itself have been drafted. At temperature 0
all probability lies on one token, so that the rule is greedy.
"""

import numpy as np

from common.protocol.rules.verify_input import TargetRows, VerifyInput

EPSILON = 0.09
DELTA = 0.3


def walk(verify_input: VerifyInput, target: TargetRows) -> list[int]:
    """The tokens that a pass commits below its root; the last of them is the target's choice."""
    children = verify_input.children()
    tokens: list[int] = []
    row: int | None = 0
    while row is not None:
        run = _deepest_run(row, verify_input, children, target)
        tokens += (int(verify_input.tokens[each]) for each in run)
        end = run[-1] if run else row
        token = target.choice(end)
        tokens.append(token)
        row = next((child for child in children[end] if verify_input.tokens[child] == token), None)
    return tokens


def _deepest_run(row: int, verify_input: VerifyInput, children: list[list[int]], target: TargetRows) -> list[int]:
    """The longest chain of accepted rows below `row`; of equally long ones the first: siblings are
    tried in the order of their rows, those that the drafter found likeliest first."""
    runs: dict[int, list[int]] = {row: []}
    pending = [row]
    for above in pending:
        if not children[above]:
            continue
        p = target.probabilities(above)
        least = threshold(p)
        for child in children[above]:
            if p[verify_input.tokens[child]] > least:
                runs[child] = [*runs[above], child]
                pending.append(child)
    return max(runs.values(), key=len)


def threshold(p: np.ndarray) -> float:
    """The probability above which a token is accepted, for a distribution `p [vocabulary]`."""
    some = p[p > 0]
    entropy = -float((some * np.log(some)).sum())
    return float(min(EPSILON, DELTA * np.exp(-entropy)))
