"""`hydra`: Hydra's heads on the newest hidden state that has arrived, each of which sees the path before it (Ankner et
al. 2024, arXiv 2402.05109). The network is that of `path_heads.py`.
"""

from common.draft_models.hydra import KIND, load_hydra
from common.drafters.load import DrafterConfig, DrafterFactory
from common.drafters.path_heads import factory_for


def load(config: DrafterConfig) -> DrafterFactory:
    """Raises CheckpointError where the heads or the tail are missing or broken."""
    return factory_for(KIND, load_hydra(config.directory), config)
