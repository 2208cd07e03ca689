"""Each guard by itself, for together one would hide the other's absence."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from netem.experiments.tasks.sandbox import ProgramOutcome, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox stands on Linux")

WALLS = (
    "import os\nfrom netem.experiments.tasks import confined\nheld = confined.leave_network_and_files(os.getcwd())\n"
)
HOOKS = "import os\nfrom netem.experiments.tasks import confined\nconfined.refuse_outside(os.getcwd())\n"


def last_line(code: str, folder: Path) -> str:
    """What the code says last, of its output or its exception, started in the folder."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return [*done.stdout.splitlines(), *done.stderr.splitlines(), ""][-2]


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    return folder


@pytest.fixture
def behind_walls(inside: Path) -> Path:
    if last_line(f"{WALLS}print(held)", inside) != "True":
        pytest.skip("this system allows no namespaces")
    return inside


def test_walls_keep_the_network_out(behind_walls: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"import socket\nsocket.create_connection({server.getsockname()})\nprint('connected')"
        assert last_line(connect, behind_walls) == "connected"
        assert last_line(WALLS + connect, behind_walls).startswith("OSError: [Errno 101]")


def test_walls_keep_files_as_they_are(behind_walls: Path) -> None:
    write = "open('../outside', 'w')\nprint('written')"
    assert last_line(write, behind_walls) == "written"
    assert last_line(WALLS + write, behind_walls).startswith("OSError: [Errno 30]")
    assert last_line(f"{WALLS}open('own', 'w')\nprint('written')", behind_walls) == "written"
    assert (behind_walls / "own").exists()


def test_programs_run_behind_the_walls(behind_walls: Path) -> None:
    network = "/proc/self/ns/net"
    assert (
        run([f"import os\nassert os.readlink({network!r}) != {os.readlink(network)!r}"]).outcome
        is ProgramOutcome.PASSED
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket\nsocket.socket()",
        "import subprocess\nsubprocess.run(['true'])",
        "os.system('true')",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.kill(os.getpid(), 9)",
        "import pty\npty.spawn('true')",
        "import ctypes\nctypes.CDLL(None)",
        "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
        "import threading\nthreading.Thread(target=print).start()",
        "open('../victim', 'w')",
        "os.open('../new', os.O_CREAT)",
        "os.remove('../victim')",
        "os.rename('../victim', 'mine')",
        "os.rename('own', '../mine')",
        "os.link('../victim', 'mine')",
        "os.symlink('own', '../mine')",
        "os.symlink('..', 'out')",
        "os.truncate('../victim', 0)",
        "os.chmod('../victim', 0)",
        "os.utime('../victim')",
        "os.chown('../victim', -1, -1)",
        "os.setxattr('../victim', 'user.mark', b'theirs')",
        "os.rmdir('../victim')",
        "os.mkdir('../folder')",
        "import shutil\nshutil.rmtree('..')",
        "import sqlite3\nsqlite3.connect('../base')",
    ],
)
def test_hooks_refuse(attempt: str, inside: Path) -> None:
    (inside / "own").touch()
    (inside / "../victim").write_text("unharmed")
    assert last_line(HOOKS + attempt, inside).startswith("PermissionError: the sandbox refuses ")
    assert (inside / "../victim").read_text() == "unharmed"
    assert {each.name for each in (inside / "..").iterdir()} == {"inside", "victim"}


def test_hooks_let_a_program_work(inside: Path) -> None:
    work = (
        "import tempfile, sqlite3, random, json, hashlib\n"
        "open('own', 'w').write('x')\n"
        "os.rename('own', 'renamed')\n"
        "os.remove('renamed')\n"
        "open(os.devnull, 'w').write('x')\n"
        "tempfile.TemporaryFile().write(b'x')\n"
        "sqlite3.connect(':memory:').execute('create table t(c)')\n"
        "open('../victim').read()\n"
        "print('done')"
    )
    (inside / "../victim").touch()
    assert last_line(HOOKS + work, inside) == "done"
