"""What can be divided among ranks."""

import pytest
from transformers import Gemma4TextConfig

from common.models.errors import CheckpointError
from common.models.tensor_parallel import check_parts


def test_heads_of_every_layer_must_divide() -> None:
    kinds = ["sliding_attention", "full_attention"]
    sizes = {"num_hidden_layers": 2, "layer_types": kinds, "num_attention_heads": 8, "num_key_value_heads": 4}
    check_parts(Gemma4TextConfig(**sizes), 4, "")
    fewer = Gemma4TextConfig(**sizes, attention_k_eq_v=True, num_global_key_value_heads=2)
    check_parts(fewer, 2, "")
    with pytest.raises(CheckpointError, match=r"8 attention heads with 2 heads .* use --tensor-parallel 2"):
        check_parts(fewer, 4, "")
