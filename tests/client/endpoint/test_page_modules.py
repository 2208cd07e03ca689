"""The parts of the page that need no browser, run by Node where there is one."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

NODE = shutil.which("node")
TESTS = Path(__file__).parent / "page_modules"


@pytest.mark.skipif(NODE is None, reason="no node here: apt-get install nodejs")
def test_the_modules_do_what_their_tests_say(tmp_path):
    """Node takes a file for a module where the package says so, and the page's files are none."""
    (tmp_path / "package.json").write_text(json.dumps({"type": "module"}))
    for module in files("client.endpoint").joinpath("static").iterdir():
        if module.name.endswith(".js"):
            (tmp_path / module.name).write_bytes(module.read_bytes())
    shutil.copytree(TESTS, tmp_path / "tests")
    tests = sorted(map(str, (tmp_path / "tests").glob("*.test.js")))
    assert tests
    done = subprocess.run([NODE, "--test", *tests], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
