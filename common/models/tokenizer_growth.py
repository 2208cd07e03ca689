"""Bounds by how much a tokenizer lengthens a text: a few lines of a malicious `tokenizer.json` can expand one letter
beyond all memory, on loading as well as in use.

Pure but for reading the file. It may not load a tokenizer.
"""

import base64
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.models.errors import CheckpointError
from common.models.source import read_json

MOST_GROWTH = 4096.0
"""The largest factor that is accepted. Published tokenizers stay below a hundred."""

GROWING_STEPS = ("normalizer", "pre_tokenizer", "decoder")
_LISTS = ("normalizers", "pretokenizers", "decoders")
_BYTE_LEVEL, _REPLACE, _PRECOMPILED = "ByteLevel", "Replace", "Precompiled"
_STRIP = "Strip"  # whose content is a character that it takes away
_HARMLESS_BYTE_LEVELS = 8
_ESCAPE = b"\\u00"  # by which any name may be written otherwise


def check_growth_of_file(path: Path) -> None:
    """Raises CheckpointError for a `tokenizer.json` that lengthens texts too much, or that cannot be read."""
    data = path.read_bytes()
    may_grow = any(name.encode() in data for name in (_REPLACE, _PRECOMPILED)) or _ESCAPE in data
    # Most files, which are large, need not be parsed.
    if may_grow or data.count(_BYTE_LEVEL.encode()) > _HARMLESS_BYTE_LEVELS:
        check_growth(read_json(path), path)


def check_growth(tokenizer: Mapping[str, Any], path: Path) -> None:
    """Raises CheckpointError for a tokenizer that lengthens texts too much, or that is malformed."""
    try:
        grown = max(_growth(tokenizer.get(step)) for step in GROWING_STEPS)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no tokenizer's; fetch or save the checkpoint again") from error
    if grown > MOST_GROWTH:
        raise CheckpointError(
            f"the tokenizer in {path} may make a text {grown:.0g} times as long, where {MOST_GROWTH:g} times are let "
            "through; choose another checkpoint"
        )


def _growth(component: Any) -> float:
    """An upper bound of the characters that one character becomes."""
    if component is None:
        return 1.0
    grown = 2.0 if component.get("type") == _BYTE_LEVEL else 1.0
    for name in _LISTS:
        grown *= math.prod(map(_growth, component.get(name) or ()))
    if "content" in component and component.get("type") != _STRIP:
        grown *= _replacing(component["pattern"], len(component["content"]))
    if component.get("precompiled_charsmap"):
        grown *= _longest(base64.b64decode(component["precompiled_charsmap"]))
    return grown


def _replacing(pattern: Any, length: int) -> float:
    if isinstance(pattern, dict) and "String" in pattern:
        return max(1.0, length / max(1, len(pattern["String"])))
    return 1.0 + length  # an expression may match between any two characters


def _longest(charsmap: bytes) -> float:
    """The longest replacement in a precompiled table: four bytes with the size of an index, the index, then the
    replacements of single characters, each ended by a zero byte."""
    begin = 4 + int.from_bytes(charsmap[:4], "little")
    return float(max(1, *map(len, charsmap[begin:].split(b"\0"))))
