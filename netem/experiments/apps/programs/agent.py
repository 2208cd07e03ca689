"""What the agents have in common: a folder with a file in it that they are to change by a command."""

import os
import subprocess
import tempfile
from pathlib import Path

FILE, TOLD = "hello.py", "Let hello.py greet Outrider."
_BEFORE = "print('Hello')\n"


def edited(command: list[str], settings: dict[str, str], files: dict[str, str]) -> str:
    """The file behind the command, which raises if it is still the same. `settings`: of the environment."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        work = Path(folder, "work")
        home.mkdir()
        work.mkdir()
        for name, text in {FILE: _BEFORE, **files}.items():
            Path(work, name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        ran = subprocess.run(
            command,
            cwd=work,
            env={**os.environ, "HOME": str(home), "PWD": str(work), **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        after = Path(work, FILE).read_text(encoding="utf-8")
    if after == _BEFORE:
        raise RuntimeError(f"exit code {ran.returncode}, not edited: {ran.stderr.strip()[-300:]} {ran.stdout[-300:]}")
    return after
