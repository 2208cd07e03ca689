"""`eagle`: drafts from the target's last hidden states where they have arrived, elsewhere from its own predictions of
them (EAGLE-1/2, Li et al. 2024, arXiv 2401.15077 and 2406.16858). The network is that of `feature_network.py`.
"""

import torch
from torch import nn

from common.draft_models.eagle import KIND, EagleDraft, load_eagle
from common.drafters.feature_network import FeatureNetwork, FeatureSource
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.tree_drafter import tree_factory
from common.protocol.draft_state import HIDDEN


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft, kept = load_eagle(config.directory)
    tail = load_tail_for(draft, config, draft.config.hidden)
    source = eagle_source(draft, tail.get_input_embeddings(), drafting_head(tail, kept), kept)

    return tree_factory(lambda: FeatureNetwork(source, config.request, config.context, SPARE_SLOTS), config)


def eagle_source(
    draft: EagleDraft, embedding: nn.Module, head: nn.Module, kept: torch.Tensor | None = None
) -> FeatureSource:
    """`embedding` is the target's; `head` has the rows of the target's for the `kept` tokens that it may propose, None
    for all."""
    return FeatureSource(KIND, HIDDEN, draft, embedding, head, kept)
