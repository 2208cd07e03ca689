"""What is wrong with the options is said before anything slow begins."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.models.errors import CheckpointError
from server import assembly
from tests.server.harness import options_for


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "cuda:99"}, "the device 'cuda:99' is not in this machine"),
        ({"device": "tpu"}, "the device 'tpu' is unknown"),
        ({"dtype": "float8"}, "the dtype 'float8' is unknown"),
    ],
)
async def test_a_device_and_a_dtype_are_checked_before_drafts_are_quantised(
    changes: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the device should have come first")

    monkeypatch.setattr(assembly, "make_offers", refuse)
    options = options_for(tmp_path)
    with pytest.raises(CheckpointError, match=said):
        assembly.assemble(replace(options, target=replace(options.target, **changes)))
