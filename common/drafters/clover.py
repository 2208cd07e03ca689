"""`clover`: Clover's recurrent head on the newest hidden state that has arrived (Xiao et al. 2024, arXiv 2405.00263).
The network is that of `path_heads.py`.
"""

from common.draft_models.clover import KIND, load_clover
from common.drafters.load import DrafterConfig, DrafterFactory
from common.drafters.path_heads import factory_for


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the heads or the tail are missing or broken."""
    return factory_for(KIND, load_clover(config.directory), config)
