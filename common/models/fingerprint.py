"""A fingerprint of a model that reads little of its files, so that both ends can check that they mean the same one.

It may not load a model. It recognises mistakes, such as a wrong fine-tune or another quantisation; it is no proof
against someone who crafts weights to collide.
"""

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

from common.models.errors import CheckpointError
from common.models.source import CONFIG, checkpoint_directory, read_json, vocabulary_file, weight_files

SAMPLED_BYTES = 1024
"""Bytes of each tensor's data that are hashed."""

VOLATILE_CONFIG_KEYS = frozenset(
    {"_name_or_path", "_commit_hash", "dtype", "torch_dtype", "transformers_version", "use_cache"}
)
"""Configuration that says where a checkpoint came from or how it was loaded, not what it computes."""

MAX_HEADER_BYTES = 100_000_000
"""The safetensors format's own limit."""


def fingerprint(path_or_id: str | Path) -> str:
    """The model's sha256, 64 hex digits, in milliseconds whatever its size.

    Covers: every key of config.json but the volatile ones; the tokenizer's vocabulary file, whole; and for every
    tensor its name, stored dtype, shape and first 1024 bytes. It covers neither the rest of a tensor's bytes,
    nor the chat template, nor how the tensors are spread over files.

    Raises `CheckpointError` where one of these is missing or cannot be read.
    """
    directory = checkpoint_directory(path_or_id, with_weights=True)
    config = read_json(directory / CONFIG)
    tensors: dict[str, list[Any]] = {}
    for path in weight_files(directory):
        tensors.update(describe_tensors(path))
    described = {
        "config": {key: value for key, value in config.items() if key not in VOLATILE_CONFIG_KEYS},
        "vocabulary": hashlib.sha256(vocabulary_file(directory).read_bytes()).hexdigest(),
        "tensors": tensors,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def describe_tensors(path: Path) -> dict[str, list[Any]]:
    """Of each tensor of a safetensors file its stored dtype, shape and the sha256 of its first 1024 bytes. Raises
    `CheckpointError` where the file cannot be read or is not whole."""
    try:
        with path.open("rb") as file:
            return _read_tensors(file)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file; fetch the checkpoint again") from error


def _read_tensors(file: BinaryIO) -> dict[str, list[Any]]:
    """Reads the format itself (8 bytes of header length, JSON, data): a library would map the whole file."""
    (header_bytes,) = struct.unpack("<Q", file.read(8))
    if header_bytes > MAX_HEADER_BYTES:
        raise ValueError("the header is longer than the format allows")
    header = json.loads(file.read(header_bytes))
    described: dict[str, list[Any]] = {}
    data_bytes = 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        file.seek(8 + header_bytes + start)
        sample = file.read(min(SAMPLED_BYTES, end - start))
        described[name] = [entry["dtype"], entry["shape"], hashlib.sha256(sample).hexdigest()]
        data_bytes = max(data_bytes, end)
    if file.seek(0, os.SEEK_END) < 8 + header_bytes + data_bytes:
        raise ValueError("the data is shorter than the header says")
    return described
