"""How a pass chooses tokens: one rule, one line in this table."""

from collections.abc import Callable
from dataclasses import dataclass

from common.protocol.rules import exact, speculative, typical
from common.protocol.rules.verify_input import TargetRows, VerifyInput


@dataclass(frozen=True, slots=True)
class Rule:
    """`grouped`: siblings are one group, sent in one Grow, computed all or none and judged once. `lossy`: its tokens
    are not the target's own."""

    walk: Callable[[VerifyInput, TargetRows], list[int]]
    grouped: bool = False
    lossy: bool = False


RULES: dict[str, Rule] = {
    "greedy": Rule(exact.walk),
    "coupled": Rule(exact.walk),
    "speculative": Rule(speculative.walk, grouped=True),
    "typical": Rule(typical.walk, lossy=True),
}


def default_rule(temperature: float) -> str:
    """The rule of an answer that names none."""
    return "coupled" if temperature > 0 else "greedy"
