"""A target that writes what a test says: each token of its script has one successor.

The model has one layer that does nothing, so that the next token depends on the last alone; each token of a script is
an added token of its own. Only what such checkpoints are made of may live here.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import LlamaConfig, LlamaForCausalLM

from tests.families import END_TOKEN, make_tokenizer

_VOCABULARY = 400
_HIDDEN = 96


def make_scripted_checkpoint(
    directory: Path, scripts: Mapping[str, Sequence[str]], chat_template: str, special: Sequence[str] = ()
) -> Path:
    """Saves a model that answers a prompt whose last token is a key of `scripts` with the tokens of that script and
    then ends. No two tokens of all scripts may be equal. Those of `special` are special tokens."""
    tokenizer = make_tokenizer()
    tokens = [*scripts, *(token for script in scripts.values() for token in script)]
    assert len(set(tokens)) == len(tokens)
    tokenizer.add_tokens([AddedToken(token, special=token in special, normalized=False) for token in tokens])
    tokenizer.chat_template = chat_template
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=_VOCABULARY,
            hidden_size=_HIDDEN,
            intermediate_size=_HIDDEN,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    ).to(torch.float64)
    with torch.no_grad():
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        embedding.copy_(torch.nn.functional.normalize(torch.randn_like(embedding), dim=-1))
        head.copy_(torch.randn_like(head) * 0.01)
        for begin, script in scripts.items():
            chain = tokenizer.convert_tokens_to_ids([begin, *script, END_TOKEN])
            for token, successor in pairwise(chain):
                head[successor] += embedding[token]
        layer = model.model.layers[0]
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
