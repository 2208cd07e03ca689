"""`eagle3`: drafts from hidden states of three of the target's layers, fused by the server into one vector, where they
have arrived, elsewhere from its own output (EAGLE-3, Li et al. 2025, arXiv 2503.01840). The network is that of
`feature_network.py`.
"""

from functools import partial

import torch
from torch import nn

from common.draft_models.eagle3 import KIND, Eagle3Draft, load_eagle3
from common.drafters.feature_network import FeatureNetwork, FeatureSource
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for
from common.drafters.tree_drafter import tree_factory
from common.protocol.draft_state import FUSED


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft, kept = load_eagle3(config.directory)
    is_alone = draft.embedding is not None and draft.head is not None
    tail = load_tail_for(draft, config, None if is_alone else draft.config.hidden)
    source = eagle3_source(draft, tail.get_input_embeddings(), drafting_head(tail), kept)

    return tree_factory(lambda: FeatureNetwork(source, config.request, config.context, SPARE_SLOTS), config)


def eagle3_source(
    draft: Eagle3Draft, embedding: nn.Module, head: nn.Module, kept: torch.Tensor | None = None
) -> FeatureSource:
    """`embedding` and `head` are the target's; the draft's own take their places, an embedding only where it differs.
    `kept`: the tokens of the draft's head, None for the target's vocabulary."""
    own = draft.embedding
    plain = isinstance(own, nn.Embedding) and isinstance(embedding, nn.Embedding)
    # One in memory is enough. Quantised ones are mapped files, of which what is not read takes none.
    if own is not None and plain and _is_same(own, embedding):
        draft.embedding = own = None
    logits = partial(draft.logits, target_head=head)
    return FeatureSource(KIND, FUSED, draft, embedding if own is None else own, logits, kept)


@torch.inference_mode()
def _is_same(own: nn.Embedding, target: nn.Module) -> bool:
    """Whether both give the same for every token: some families scale what they look up."""
    theirs = target.get_parameter("weight")
    first = torch.zeros(1, dtype=torch.long, device=theirs.device)
    return torch.equal(own.weight, theirs) and torch.equal(own(first), target(first))
