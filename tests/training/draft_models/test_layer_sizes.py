"""A draft's layers have the sizes of the target's, whatever its configuration calls them."""

from dataclasses import replace
from pathlib import Path

import pytest
from transformers import GPT2Config, GPTNeoXConfig, LlamaConfig, PreTrainedConfig

from common.draft_models.layers import LayerShape
from tests.training.draft_models.rehearsal import target_of
from training.draft_models.layer_sizes import target_layer

SHAPE = LayerShape(hidden=48, heads=6, kv_heads=6, head_dim=8, intermediate=96)
GPT2 = {"n_embd": 48, "n_head": 6, "n_layer": 2, "vocab_size": 300}
OTHERS = {"hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 2, "vocab_size": 300}


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (GPT2Config(**GPT2, n_inner=96), SHAPE),
        (GPT2Config(**GPT2), replace(SHAPE, intermediate=4 * 48)),
        (GPTNeoXConfig(**OTHERS, intermediate_size=96), SHAPE),
        (LlamaConfig(**OTHERS, intermediate_size=96, num_key_value_heads=2), replace(SHAPE, kv_heads=2)),
    ],
)
def test_sizes_are_found_under_any_name(tmp_path: Path, config: PreTrainedConfig, shape: LayerShape) -> None:
    found = target_layer(target_of(tmp_path, config))
    assert replace(found, epsilon=shape.epsilon, rope_base=shape.rope_base) == shape
