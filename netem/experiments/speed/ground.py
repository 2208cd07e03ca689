"""What every run of this folder stands on: the models loaded once, and the prompts as tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from client.text import chat_tokens
from common.drafters.drafter import Drafter
from common.models.shipped import Family
from netem.experiments.experiment import Request
from netem.experiments.one_device.contenders import find_ground
from netem.experiments.one_device.prompts import choose
from netem.virtual.datacenter import Datacenter, open_datacenter
from netem.virtual.laptop import Draft, Laptops

TokenPrompts = Mapping[str, list[list[int]]]
"""By category."""


@dataclass(frozen=True)
class Ground:
    datacenter: Datacenter
    laptops: Laptops
    prompts: TokenPrompts

    def drafter(self, draft: Draft | None) -> Drafter | None:
        """A fresh one; None where nothing drafts on the laptop."""
        return None if draft is None else self.laptops.drafter(draft)


def _drafts(request: Request) -> dict[str, Path]:
    return {draft.name: draft for draft in Family(find_ground(request).drafts).drafts}


def models(request: Request) -> Mapping[str, Path]:
    """What a run loads, by its folder's name."""
    return {"target": find_ground(request).target, **_drafts(request)}


def open_ground(request: Request, prompts: int) -> Ground:
    """Loads the target and all drafts beside it, and chooses so many held-out prompts of each category.

    Raises OutriderError where something is missing or does not fit together.
    """
    found = find_ground(request)
    datacenter = open_datacenter(found.target, list(_drafts(request).values()))
    chosen = choose(found.prompts, prompts, request.seed)
    tokenizer = datacenter.offer.tokenizer
    tokens = {
        category: [chat_tokens(tokenizer, [{"role": "user", "content": prompt.text}]) for prompt in of_category]
        for category, of_category in chosen.items()
    }
    return Ground(datacenter, Laptops(datacenter), tokens)
