"""`greedy` and `coupled`: the target's own decoding, token for token.

At every processed node the target has one choice: its argmax, or for `coupled` its sample for the seed, which is
argmax(log p + noise(seed, position, token)) and so depends on nothing that was drafted. A processed child that carries
the choice is accepted and the walk goes on below it; otherwise that choice is the bonus token and the walk ends. What
was drafted changes how many tokens a pass commits, never which.

Leviathan et al. 2023 at temperature 0; SpecInfer's tree walk (Miao et al. 2024); for noise that draft and target share,
Daliri, Musco and Suresh 2024, "Coupling without communication and drafter-invariant speculative decoding".
"""

from common.protocol.rules.verify_input import TargetRows, VerifyInput


def walk(verify_input: VerifyInput, target: TargetRows) -> list[int]:
    """The tokens that a pass commits below its root; the last of them is the bonus token."""
    tokens: list[int] = []
    row: int | None = 0
    while row is not None:
        token = target.choice(row)
        tokens.append(token)
        row = verify_input.row_below.get((row, token))
    return tokens
