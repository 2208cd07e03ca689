"""Loads a Hugging Face checkpoint: configuration, model, tokenizer. Code that comes with one is never run.

Library exceptions are translated to `CheckpointError` here, once. It may not know K/V pools or passes.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers import __version__ as transformers_version
from transformers.utils import logging

from common.memory import TOO_LITTLE_MEMORY, is_out_of_memory
from common.models.errors import CheckpointError
from common.models.families import check_causal_lm, check_positions
from common.models.fp8_blocks import check_whole_blocks
from common.models.placement import parse_device, parse_dtype
from common.models.quantised import first_sentence, loading, method_of, quietly, settle
from common.models.source import (
    CONFIG,
    VOCABULARIES,
    checkpoint_directory,
    read_json,
    vocabulary_file,
    weight_files,
)
from common.models.tensor_parallel import check_parts, loading_in_parts
from common.models.tokenizer_growth import GROWING_STEPS, check_growth, check_growth_of_file
from common.protocol.plain import plain

# Not left out: transformers would ask at the terminal, and run the checkpoint's code after a "y".
_TRUSTED: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}

_TRIAL = "a word and another, 1 é " * 40
"""Text that every usable tokenizer encodes and decodes without an error."""

_BEYOND_VOCABULARY = 1 << 20
"""How many more tokens than its tokenizer a target may have."""


def load_causal_lm(
    path_or_id: str | Path,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = torch.float32,
    quantise: str = "",
    ranks: int = 1,
    *,
    expanded: bool = False,
) -> PreTrainedModel:
    """A model for inference: evaluation mode, no gradients, transformers' own attention until a `PackedModel`
    takes it over. Safetensors only, no code from the checkpoint. A quantised checkpoint stays quantised, if the device
    can compute with it and unless it is to be `expanded` to plain numbers, as far as its method can; `quantise`, int8
    or int4, quantises the linear layers of a plain one. With more than one of `ranks`, this process's part of it, by
    tensor parallelism: all ranks of the process group call this together.

    Raises `CheckpointError` where the checkpoint, the device or the dtype cannot be used.
    """
    chosen_dtype = parse_dtype(dtype)
    chosen_device = parse_device(device)
    directory = checkpoint_directory(path_or_id, with_weights=True)
    config = read_json(directory / CONFIG)
    parsed = load_config(directory)
    _check_attention(directory, config)
    method = method_of(config)
    if ranks > 1:
        check_parts(parsed, ranks, method or quantise)
    weight_files(directory)
    check_whole_blocks(directory, config, str(chosen_device), expanded=expanded)
    _be_quiet()
    try:
        if ranks > 1:
            special = loading_in_parts(ranks, chosen_device)
        else:
            special = loading(method, quantise, chosen_device, expanded=expanded)
        if chosen_dtype is torch.float64:  # for which torch has no grouped kernel
            special |= {"experts_implementation": "eager"}
        with quietly() if special else nullcontext():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                directory,
                dtype=chosen_dtype,
                use_safetensors=True,
                output_loading_info=True,
                **special,
                **_TRUSTED,
            )
    # The libraries below raise exceptions of their own for each kind of broken file.
    except CheckpointError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise CheckpointError(f"the checkpoint in {directory} cannot be loaded: {TOO_LITTLE_MEMORY}") from error
        if method or quantise:
            raise CheckpointError(
                f"the checkpoint in {directory} is quantised ({method or quantise}) and cannot be loaded: "
                f"{first_sentence(error)}"
            ) from error
        raise CheckpointError(f"the checkpoint in {directory} cannot be loaded; fetch or save it again") from error
    model: PreTrainedModel = loaded[0]
    absent = sorted(loaded[1]["missing_keys"])
    if absent:
        raise CheckpointError(
            f"the weights in {directory} lack {len(absent)} tensors, such as {absent[0]}; fetch or save the "
            "checkpoint again"
        )
    model.requires_grad_(False)
    if ranks > 1:  # each rank's part lies where it belongs
        return model
    if special:
        settle(model, chosen_dtype)
    try:
        torch.nn.Module.to(model, chosen_device)
    except torch.OutOfMemoryError as error:
        raise CheckpointError(
            f"the checkpoint in {directory} does not fit into the memory of {chosen_device}; choose a smaller "
            "dtype, model or another device"
        ) from error
    return model


def _check_attention(directory: Path, config: Mapping[str, Any]) -> None:
    """Raises CheckpointError for attention code from a repository: with the `kernels` package installed, transformers
    would fetch and run it."""
    for key in ("attn_implementation", "_attn_implementation"):
        if "/" in str(config.get(key)):
            raise CheckpointError(
                f"the checkpoint in {directory} asks for an attention that it does not bring, which is never fetched; "
                f"take '{key}' out of its {CONFIG}"
            )


def load_config(directory: Path) -> PreTrainedConfig:
    """The checkpoint's configuration. Raises `CheckpointError` where it cannot be read, is of no causal language model
    that transformers has, or asks for positions that passes cannot give."""
    described = read_json(directory / CONFIG)
    check_causal_lm(directory, described)
    if described["model_type"] not in CONFIG_MAPPING:
        raise CheckpointError(
            f"the model type '{plain(described['model_type'], 40)}' in {directory} is unknown to transformers "
            f"{transformers_version}; upgrade it, or choose another checkpoint"
        )
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(directory, **_TRUSTED)
    # A field of the wrong type raises any exception.
    except Exception as error:
        raise CheckpointError(
            f"the configuration in {directory} cannot be read; fetch or save the checkpoint again"
        ) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise CheckpointError(
            f"the model type '{plain(described['model_type'], 40)}' in {directory} has no causal language model in "
            f"transformers {transformers_version}; choose another checkpoint"
        )
    check_positions(directory, config)
    return config


def read_end_tokens(directory: Path, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end an answer of a target: those of generation_config.json, without that file those of `config`,
    and the tokenizer's own, as far as they are tokens that it has logits for: some files say -1 for none. Raises
    `CheckpointError` where the file cannot be read."""
    try:
        if (directory / "generation_config.json").is_file():
            generation = GenerationConfig.from_pretrained(directory, local_files_only=True)
        else:
            generation = GenerationConfig.from_model_config(config)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"the generation configuration in {directory} cannot be read; fetch the checkpoint again"
        ) from error
    configured = generation.eos_token_id
    ends = [*(configured if isinstance(configured, list | tuple) else (configured,)), tokenizer.eos_token_id]
    return frozenset(token for token in ends if isinstance(token, int) and 0 <= token < config.vocab_size)


def load_tokenizer(path_or_id: str | Path) -> PreTrainedTokenizerBase:
    """The checkpoint's tokenizer. Raises `CheckpointError` where it is missing or cannot be read."""
    directory = checkpoint_directory(path_or_id, with_weights=False)
    vocabulary = vocabulary_file(directory)
    if vocabulary.name == VOCABULARIES[0]:
        check_growth_of_file(vocabulary)
    _be_quiet()
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(directory, **_TRUSTED)
        _try_out(tokenizer, vocabulary)
    except CheckpointError:
        raise
    # The tokenizers library raises bare `Exception` for a file that it cannot parse, and for one that it cannot use a
    # Rust panic, which is not even an `Exception`.
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if is_out_of_memory(error):
            raise CheckpointError(f"the tokenizer in {directory} cannot be loaded: {TOO_LITTLE_MEMORY}") from error
        raise CheckpointError(
            f"the tokenizer in {directory} cannot be read; fetch or save the checkpoint again"
        ) from error
    tokenizer.clean_up_tokenization_spaces = False  # a text must come back as it was, and be the same at both ends
    return tokenizer


def _try_out(tokenizer: Any, vocabulary: Path) -> None:
    """Encodes and decodes a text. Raises CheckpointError or any other exception for a tokenizer that cannot."""
    unfit = CheckpointError(
        f"the tokenizer in {vocabulary.parent} is a {type(tokenizer).__name__}, which fits no language model that runs "
        "here; choose another checkpoint."
    )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise unfit
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # what was made of another file than tokenizer.json
        steps = {name: getattr(backend, name) for name in GROWING_STEPS}
        check_growth({name: json.loads(step.__getstate__()) for name, step in steps.items() if step}, vocabulary)
    tokenizer.decode(tokenizer(_TRIAL)["input_ids"])
    try:
        tokenizer.decode([_BEYOND_VOCABULARY])
    except Exception as error:
        raise unfit from error


def _be_quiet() -> None:
    silencers: list[Callable[[], None]] = [logging.set_verbosity_error, logging.disable_progress_bar]
    for silence in silencers:
        silence()
