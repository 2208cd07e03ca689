"""`block`: drafts levels of a tree, each with a block of guesses behind it, by one network (`block_network.py`)."""

from common.draft_models.block import load_block
from common.drafters.block_network import BlockNetwork
from common.drafters.level_and_block_drafter import LevelAndBlockDrafter
from common.drafters.load import SPARE_SLOTS, DrafterConfig, DrafterFactory, drafting_head, load_tail_for


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the draft or the tail is missing or broken."""
    draft = load_block(config.directory)
    tail = load_tail_for(draft, config, draft.config.trunk.layer.hidden)
    head = drafting_head(tail)

    def make() -> LevelAndBlockDrafter:
        network = BlockNetwork(draft, tail, head, config.request, config.context, SPARE_SLOTS)
        return LevelAndBlockDrafter(network, config.expansion, config.ranking)

    return make
