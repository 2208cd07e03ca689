"""Errors of writing become one sentence, and all others stay what they are."""

from __future__ import annotations

import errno
import os

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from common.protocol.errors import OutriderError
from training.writing import written

SENTENCE = r"^it cannot be written: No space left on device; make room$"


def test_a_full_disk_is_one_sentence_whoever_writes() -> None:
    tensor = {"a": torch.zeros(100_000)}
    with pytest.raises(OutriderError, match=SENTENCE), written("it", "make room"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OutriderError, match=SENTENCE), written("it", "make room"), open("/dev/full", "wb") as file:
        torch.save(tensor, file)
    with pytest.raises(OutriderError, match=SENTENCE), written("it", "make room"):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    with pytest.raises(OutriderError, match=r"^it cannot be written: \w[^;]+; make room$"), written("it", "make room"):
        save_file(tensor, "/proc/nowhere/file")


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), KeyError("a"), SafetensorError("no header")])
def test_other_errors_stay(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, written("it", "make room"):
        raise error
    assert raised.value is error
