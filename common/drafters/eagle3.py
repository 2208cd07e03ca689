"""`eagle3`: drafts from hidden states of three of the target's layers, fused by the server into one vector, where they
have arrived, elsewhere from its own output (EAGLE-3, Li et al. 2025, arXiv 2503.01840). The network is that of
`feature_network.py`.
"""

import torch
from torch import nn

from common.draft_models.eagle3 import KIND, Eagle3Draft, load_eagle3
from common.drafters.feature_network import FeatureNetwork, FeatureSource
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, load_tail_for
from common.drafters.tree_drafter import TreeDrafter
from common.protocol.draft_state import FUSED


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft, kept = load_eagle3(config.directory)
    tail = load_tail_for(config, None if draft.embedding is not None else draft.config.hidden)
    draft.to(tail.device, tail.dtype)
    source = eagle3_source(draft, tail.get_input_embeddings(), kept)

    def make() -> TreeDrafter:
        network = FeatureNetwork(source, config.request, config.context, SPARE_SLOTS)
        return TreeDrafter(network, config.expansion, config.ranking)

    return make


def eagle3_source(draft: Eagle3Draft, embedding: nn.Module, kept: torch.Tensor | None = None) -> FeatureSource:
    """`embedding` is the target's; the draft's own, where it brings one that differs, takes its place. `kept`: the
    tokens of the head's rows, None for the target's vocabulary."""
    own = draft.embedding
    plain = isinstance(own, nn.Embedding) and isinstance(embedding, nn.Embedding)
    # One in memory is enough. Quantised ones are mapped files, of which what is not read takes none.
    if own is not None and plain and torch.equal(own.weight, embedding.get_parameter("weight")):
        draft.embedding = own = None
    return FeatureSource(KIND, FUSED, draft, embedding if own is None else own, draft.logits, kept)
