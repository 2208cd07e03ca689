"""common.programs.configuration_file: a TOML file as data, or one sentence that names the file."""

from pathlib import Path

import pytest

from common.programs.configuration_file import read_toml
from common.protocol.errors import MisuseError


def test_what_it_says_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("one = 1\n[two]\nthree = 'é'\n", encoding="utf-8")
    assert read_toml(file, "file") == {"one": 1, "two": {"three": "é"}}


@pytest.mark.parametrize("content", [b"one = ", b"one = '\xff'"])
def test_what_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    with pytest.raises(MisuseError, match=f"the tokens file {file} is not valid TOML: "):
        read_toml(file, "tokens file")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=f"the tokens file {tmp_path} cannot be read: Is a directory"):
        read_toml(tmp_path, "tokens file")
