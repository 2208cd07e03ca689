"""`block`: drafts by a network that predicts many positions in one forward (`block_network.py`), with the tree of
`marginals.py`.
"""

from common.draft_models.block import load_block
from common.drafters.block_network import BlockNetwork
from common.drafters.load import DrafterConfig, DrafterFactory, load_tail_for
from common.drafters.marginals import BlockDrafter

__all__ = ["BlockDrafter", "load"]


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft = load_block(config.directory)
    tail = load_tail_for(config, draft.config.trunk.hidden)
    draft.to(tail.device, tail.dtype)

    def make() -> BlockDrafter:
        network = BlockNetwork(draft, tail, config.context)
        return BlockDrafter(network, config.request, config.expansion, config.ranking)

    return make
