"""client.local_serve.running: a running `outrider serve` is found by files that only the same user can have written."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from client.local_serve.running import (
    Running,
    UnsafeError,
    announce,
    connected,
    find_running,
    is_own,
    own_version,
    prepare_socket,
    withdraw,
)

SERVER = "127.0.0.1:7070"


@pytest.fixture
def running(tmp_path: Path):
    """One that listens, in this process."""
    path = prepare_socket(tmp_path, os.getpid())
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(0o600)
    listening.listen()
    told = Running(os.getpid(), own_version(), SERVER, str(path))
    announce(tmp_path, told)
    yield told
    listening.close()


def file_of(cache: Path) -> Path:
    return cache / "serving" / f"{os.getpid()}.json"


def test_who_listens_is_found_and_can_be_spoken_to(tmp_path, running) -> None:
    assert find_running(tmp_path) == [running]
    connection = connected(running, 1.0)
    assert connection is not None
    assert is_own(connection)
    connection.close()


def test_nobody_else_may_enter(tmp_path, running) -> None:
    assert stat.S_IMODE((tmp_path / "serving").stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600


def test_what_is_withdrawn_is_gone(tmp_path, running) -> None:
    withdraw(tmp_path, running)
    assert list((tmp_path / "serving").iterdir()) == []
    assert find_running(tmp_path) == []
    withdraw(tmp_path, running)  # twice is once


def test_a_process_that_is_gone_is_not_found(tmp_path, running) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    announce(tmp_path, Running(ended.pid, running.version, SERVER, running.socket))
    assert find_running(tmp_path) == [running]


@pytest.mark.parametrize("left", ["nothing", "a file", "a socket without anybody", "a link"])
def test_a_socket_at_which_nobody_listens_is_nobody(tmp_path, left) -> None:
    path = prepare_socket(tmp_path, 1)
    if left == "a file":
        path.write_text("")
        path.chmod(0o600)
    elif left == "a socket without anybody":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
            gone.bind(str(path))
        path.chmod(0o600)
    elif left == "a link":
        path.symlink_to(tmp_path)
    assert connected(Running(os.getpid(), own_version(), SERVER, str(path)), 1.0) is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_not_believed(tmp_path, running, mode) -> None:
    (tmp_path / "serving").chmod(mode)
    with pytest.raises(UnsafeError, match="is open to other users of this machine"):
        find_running(tmp_path)
    with pytest.raises(UnsafeError):
        prepare_socket(tmp_path, 1)
    assert connected(running, 1.0) is None


def test_a_file_that_others_may_read_is_not_believed(tmp_path, running) -> None:
    file_of(tmp_path).chmod(0o644)
    assert find_running(tmp_path) == []


def test_a_socket_that_others_may_use_is_not_used(running) -> None:
    Path(running.socket).chmod(0o666)
    assert connected(running, 1.0) is None


@pytest.mark.parametrize(
    "content",
    ["", "nonsense", "[]", "{}", '{"pid": 1}', json.dumps({"pid": "1", "version": "1", "server": "a", "socket": "b"})],
)
def test_files_that_say_nothing_are_passed_over(tmp_path, running, content) -> None:
    odd = tmp_path / "serving" / "1.json"
    odd.write_text(content)
    odd.chmod(0o600)
    assert find_running(tmp_path) == [running]


def test_numbers_of_processes_that_cannot_be_are_passed_over(tmp_path, running) -> None:
    announce(tmp_path, Running(1 << 70, running.version, SERVER, running.socket))
    announce(tmp_path, Running(0, running.version, 7, running.socket))  # type: ignore[arg-type]
    assert find_running(tmp_path) == [running]


def test_a_cache_with_a_long_name_has_its_socket_elsewhere(tmp_path) -> None:
    cache = tmp_path / ("long" * 40)
    path = prepare_socket(cache, 5)
    assert len(os.fsencode(path)) < 100
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    told = Running(5, own_version(), SERVER, str(path))
    path.write_text("")
    withdraw(cache, told)
    assert not path.parent.exists()


def test_it_is_found_without_importing_anything_else() -> None:
    code = (
        "import sys; from client.local_serve import running\n"
        "print([name for name in ('torch', 'numpy', 'grpc', 'asyncio', 'typer', 'rich') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
