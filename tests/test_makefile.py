"""`make install` as a user sees it: each step is announced, and pip speaks only of what is wrong."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PIP = """\
#!/bin/sh
echo "pip was run with: $*"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the Makefile with a Python that installs nothing."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(HOME / name, tmp_path / name)
    shutil.copytree(HOME / "hashes", tmp_path / "hashes")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    return tmp_path


def make(where: Path) -> list[str]:
    # These tests may be run by make, which would add lines about directories.
    outside = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "install"], cwd=where, env=outside, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_an_install_says_what_it_does_before_it_does_it_and_keeps_pip_to_errors(checkout: Path) -> None:
    said = make(checkout)
    pips = [index for index, line in enumerate(said) if line.startswith("pip was run with")]
    assert len(pips) == 3
    assert "some minutes" in said[0]
    assert all("Installing" in said[index - 1] for index in pips)
    assert all(said[index].split().count("--quiet") == 1 for index in pips)  # more would hide warnings
    assert make(checkout) == ["make: Nothing to be done for 'install'."]
