"""The cost of an answer in rounds on one device, by the stated costs of the benchmarks. Pure arithmetic."""

from common.rounds import RoundsAnswer
from common.stated_costs import STATED
from server.options import Pace

PACE = Pace(STATED.pass_ms / 1000, STATED.token_ms / 1000)

IN_WORDS = (
    f"a pass takes {STATED.pass_ms:g} ms, or {STATED.token_ms:g} ms per packed token where that is more; a "
    f"drafted level {STATED.draft_level_ms:g} ms, of merged drafts for each with weights, and, for each target "
    "layer that the draft runs itself, that layer's share of a pass"
)


def level_seconds(depth: int, target_layers: int, forwards: int = 1) -> float:
    """The cost of a drafted level of so many draft models, of which one runs `depth` of the target's layers."""
    return forwards * STATED.draft_seconds + depth * PACE.per_pass / target_layers


def answer_seconds(answer: RoundsAnswer, depth: int, target_layers: int, forwards: int = 1) -> float:
    """The cost of drafting and verifying an answer, without the prompt's own pass."""
    passes = sum(PACE.cost(packed) for packed in answer.packed)
    return passes + answer.levels * level_seconds(depth, target_layers, forwards)


def plain_seconds(tokens: int) -> float:
    """The cost of decoding so many tokens one by one."""
    return tokens * PACE.cost(1)
