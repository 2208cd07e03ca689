"""Writes a Llama checkpoint as a GGUF file of float32 numbers, which llama.cpp reads.

Knows both formats, and no server. llama.cpp's own converter is not a part of its packages, and does not know the
tokenizers of checkpoints that nobody has published.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    import torch

_ARCHITECTURE = "llama"
_TOKENIZER = "tokenizer.json"
_TEMPLATE = "chat_template.jinja"
_PRE_TOKENIZER = "smollm"
"""llama.cpp's name for single digits, then the pieces of GPT-2's regular expression."""

_PRE_TOKENIZERS = ("Digits", "ByteLevel")
_ROTATED = ("self_attn.q_proj.weight", "self_attn.k_proj.weight")


def write_gguf(checkpoint: Path, file: Path) -> None:
    """Writes weights and tokenizer. Raises MisuseError for a checkpoint of another family or another tokenizer."""
    import gguf

    from common.models.checkpoint import load_causal_lm
    from common.models.source import CONFIG, read_json

    config = read_json(checkpoint / CONFIG)
    if config.get("model_type") != _ARCHITECTURE:
        raise MisuseError(f"{checkpoint} is no checkpoint of the family {_ARCHITECTURE}, the only one written as GGUF")
    writer = gguf.GGUFWriter(file, _ARCHITECTURE)
    _write_shape(writer, config)
    _write_tokenizer(writer, checkpoint, config)
    weights: Mapping[str, torch.Tensor] = load_causal_lm(checkpoint).state_dict()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, weight in weights.items():
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        if name.endswith(_ROTATED):
            heads = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            weight = interleaved(weight, config[heads])
        stored_name = names.get_name(name, try_suffixes=(".weight",))
        if stored_name is None:
            raise MisuseError(f"llama.cpp has no name for {name} of {checkpoint}")
        writer.add_tensor(stored_name, weight.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def interleaved(weight: "torch.Tensor", heads: int) -> "torch.Tensor":
    """The rows of a projection to queries or keys, [heads * D, E], in llama.cpp's order: it rotates neighbours, and
    transformers the two halves of a head."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()


def _write_shape(writer: Any, config: Mapping[str, Any]) -> None:
    import gguf

    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def _write_tokenizer(writer: Any, checkpoint: Path, config: Mapping[str, Any]) -> None:
    import gguf

    from common.models.source import read_json

    stored = read_json(checkpoint / _TOKENIZER)
    model = stored["model"]
    pieces = (stored.get("pre_tokenizer") or {}).get("pretokenizers", ())
    if model["type"] != "BPE" or tuple(piece["type"] for piece in pieces) != _PRE_TOKENIZERS:
        raise MisuseError(f"llama.cpp has no name for the tokenizer of {checkpoint}, single digits and bytes expected")
    special = {added["content"]: added["id"] for added in stored["added_tokens"]}
    numbered = {number: token for token, number in (model["vocab"] | special).items()}
    types = gguf.TokenType
    token_ids = range(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_PRE_TOKENIZER)
    writer.add_token_list([numbered.get(token_id, f"<unused {token_id}>") for token_id in token_ids])
    writer.add_token_types([_type_of(types, numbered.get(token_id), special) for token_id in token_ids])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    if config.get("pad_token_id") is not None:
        writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template((checkpoint / _TEMPLATE).read_text(encoding="utf-8"))


def _type_of(types: Any, token: str | None, special: Mapping[str, int]) -> int:
    if token is None:
        return int(types.UNUSED)
    return int(types.CONTROL if token in special else types.NORMAL)
