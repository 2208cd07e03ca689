"""The range of every number that an option of `outrider-train` takes. It may not import torch, nor know any option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.protocol.errors import MisuseError

LARGEST = 2**63 - 1
"""The largest seed of torch's generators that is no negative one, and more than anything that is counted here."""


def check_numbers(options: Mapping[str, Any]) -> None:
    """Raises MisuseError for a number below 0, above `LARGEST`, or that is none; other values pass. The names are those
    of parameters."""
    for name, value in options.items():
        if isinstance(value, int | float) and not 0 <= value <= LARGEST:
            raise MisuseError(f"--{name.replace('_', '-')} must be a number from 0 to {LARGEST:,}, not {value}")
