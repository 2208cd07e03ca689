"""The testbed of the virtual runs: models that are loaded once, and prompts as token ids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from client.text import chat_tokens
from common.drafters.drafter import Drafter
from common.models.shipped import ModelFolder
from netem.experiments.experiment import Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.one_device.prompts import choose
from netem.virtual.client import DraftSetup, LoadedDrafts
from netem.virtual.server import VirtualServer, load_virtual_server
from server.models.target_loader import load_target
from server.passes.target import Target

TokenPrompts = Mapping[str, list[list[int]]]
"""Token ids of prompts, by category."""


@dataclass(frozen=True)
class Testbed:
    """The loaded models, and the prompts to send."""

    __test__ = False  # pytest takes classes named Test... for tests

    server: VirtualServer
    loaded_drafts: LoadedDrafts
    prompts: TokenPrompts

    def drafter(self, draft: DraftSetup | None, beside: tuple[DraftSetup, ...] = ()) -> Drafter | None:
        """A new drafter, whose tree those `beside` share; None where the client does not draft."""
        return None if draft is None else self.loaded_drafts.drafter(draft, beside)


def _drafts(request: Request) -> dict[str, Path]:
    return {draft.name: draft for draft in ModelFolder(find_model_paths(request).folder).drafts}


def models(request: Request) -> Mapping[str, Path]:
    """The checkpoints that a run loads, by the names of their folders."""
    return {"target": find_model_paths(request).target, **_drafts(request)}


def open_testbed(
    request: Request,
    prompts: int,
    dtype: str = "float32",
    batch_invariant: bool | None = None,
    load: Callable[..., Target] = load_target,
) -> Testbed:
    """Loads the target and all draft models beside it, and chooses `prompts` held-out prompts of each category.
    `dtype` and `batch_invariant` are the target's, which `load` loads.

    Raises OutriderError where a model is missing or models do not fit together.
    """
    found = find_model_paths(request)
    server = load_virtual_server(found.target, list(_drafts(request).values()), dtype, batch_invariant, load)
    chosen = choose(found.prompts, prompts, request.seed)
    tokenizer = server.offer.tokenizer
    tokens = {
        category: [chat_tokens(tokenizer, [{"role": "user", "content": prompt.text}]) for prompt in of_category]
        for category, of_category in chosen.items()
    }
    return Testbed(server, LoadedDrafts(server), tokens)
