"""Which sessions take part in the next pass, and with how many tokens each. Pure arithmetic.

It may not know sessions, slots, trees or time: only what each asks for and when it was last served.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PROMPT_PART = 4
"""Trees leave unprocessed prompts one part in this many of the budget, so that neither starves the other."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one due session asks for, in tokens. `served` is the number of the last pass that it took part in."""

    chain: int
    nodes: int
    served: int

    @property
    def tokens(self) -> int:
        return self.chain + self.nodes

    @property
    def decodes(self) -> bool:
        """Whether only its root is unprocessed: no prompt is left."""
        return self.chain == 1


def share(demands: Sequence[Demand], budget: int) -> list[int]:
    """The tokens that each demand gets of a pass of `budget` tokens; 0 where it waits for another pass.

    Decoding goes first, root and nodes, up to what is left for prompts; prompts fill the rest. Within either kind
    shares are max-min fair, and where there is not even one token for each, those served longest ago go first. A
    single token cannot be divided between the kinds: it goes to whoever was served longest ago.
    """
    order = sorted(range(len(demands)), key=lambda index: demands[index].served)
    if budget == 1:
        return [int(index in order[:1]) for index in range(len(demands))]
    decoding = [index for index in order if demands[index].decodes]
    prompts = [index for index in order if not demands[index].decodes]
    wishes = [demand.tokens for demand in demands]
    reserved = min(sum(wishes[index] for index in prompts), max(1, budget // PROMPT_PART))

    for_decoding = _fair([wishes[index] for index in decoding], budget - reserved)
    for_prompts = _fair([wishes[index] for index in prompts], budget - sum(for_decoding))
    shares = dict(zip([*decoding, *prompts], [*for_decoding, *for_prompts], strict=True))
    return [shares[index] for index in range(len(demands))]


def max_decoding_sessions(budget: int) -> int:
    """The sessions that can decode in every pass, prompts or no prompts."""
    return max(1, budget - budget // PROMPT_PART)


def _fair(wishes: Sequence[int], budget: int) -> list[int]:
    """Max-min fair shares of `budget`: nobody gets more than it wishes while another could use it."""
    if budget < len(wishes):
        return [1] * budget + [0] * (len(wishes) - budget)
    shares = [0] * len(wishes)
    waiting = len(wishes)
    for index in sorted(range(len(wishes)), key=wishes.__getitem__):
        shares[index] = min(wishes[index], budget // waiting)
        budget -= shares[index]
        waiting -= 1
    return shares
