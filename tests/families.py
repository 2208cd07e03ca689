"""Small random checkpoints of every supported family, for all tests.

Only what tests build models from may live here. Weights depend on the arguments alone.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")

SLIDING_WINDOW = 16
"""Mistral's window in every layer; Qwen2's in its last layer."""

SHARD_BYTES = "60KB"

END_TOKEN = "<|end|>"
TURN_TOKEN = "<|turn|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|turn|>{{ message['role'] }}\n{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)

_CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "a small draft model rides ahead of a large target model",
    "user assistant system\n",
]


def make_checkpoint(
    directory: Path,
    family: str,
    *,
    tied: bool = False,
    sharded: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    vocab: int = 300,
    layers: int = 3,
    hidden: int = 48,
) -> Path:
    """Saves a random model of one of `FAMILIES` with a byte-level tokenizer beside it; returns `directory`.

    6 query heads share 2 key/value heads. `vocab` is at least 258: 256 bytes and 2 special tokens.
    """
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(_config(family, tied, vocab, layers, hidden), dtype=dtype)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Wide weights spread the logits, so that argmax has no near-ties; norms and biases must not be trivial.
            offset = 1.0 if "norm" in name else 0.0
            weight.copy_(offset + torch.randn(weight.shape, dtype=torch.float64) * 0.2)
    model.save_pretrained(directory, max_shard_size=SHARD_BYTES if sharded else "1GB")
    make_tokenizer(vocab).save_pretrained(directory)
    return directory


def make_tokenizer(vocab: int = 300) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of at most `vocab` tokens, with an end token and a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END_TOKEN, TURN_TOKEN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_TOKEN,
        # Named, because Qwen2's tokenizer class otherwise adds one of its own, beyond the model's vocabulary.
        unk_token=END_TOKEN,
        pad_token=END_TOKEN,
        additional_special_tokens=[TURN_TOKEN],
        chat_template=CHAT_TEMPLATE,
    )


def _config(family: str, tied: bool, vocab: int, layers: int, hidden: int) -> PreTrainedConfig:
    shape = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": hidden // 6,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": tied,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    match family:
        case "llama":
            return LlamaConfig(**shape)
        case "qwen2":
            return Qwen2Config(
                **shape, use_sliding_window=True, sliding_window=SLIDING_WINDOW, max_window_layers=layers - 1
            )
        case "qwen3":
            return Qwen3Config(**shape)
        case "mistral":
            return MistralConfig(**shape, sliding_window=SLIDING_WINDOW)
        case _:
            raise ValueError(f"no such family: {family}")
