"""netem.cli as a person runs it: output, exit codes, signals."""

import re
import signal
import socket
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from netem.cli import main; main()"]


def outrider_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_profiles_are_listed() -> None:
    listing = outrider_lab("profiles")
    assert listing.returncode == 0
    assert all(name in listing.stdout for name in ("4g", "5g", "satellite", "lan", "none"))


def test_help_loads_neither_torch_nor_asyncio() -> None:
    code = "import sys, netem.cli; sys.exit(bool({'torch', 'asyncio', 'rich.table'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ([], "--help"),
        (["proxy"], "--help"),
        (["proxy", "sattelite", "--to", "127.0.0.1:1"], "did you mean satellite"),
        (["proxy", "4g", "--to", "nonsense"], "write HOST:PORT"),
        (["proxy", "4g", "--to", "127.0.0.1:0"], "names no port to connect to"),
        (["proxy", "4g", "--to", "127.0.0.1:1", "--listen", "nonsense"], "write HOST:PORT"),
    ],
)
def test_misuse_is_answered_in_one_sentence(arguments: list[str], advice: str) -> None:
    answer = outrider_lab(*arguments)
    assert answer.returncode == 2
    assert advice in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_port_in_use_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = outrider_lab("proxy", "4g", "--to", "127.0.0.1:1", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert answer.returncode == 1
    assert "in use" in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_proxy_says_when_it_is_ready_and_ends_cleanly(number: signal.Signals) -> None:
    with subprocess.Popen(
        [*COMMAND, "proxy", "none", "--to", "127.0.0.1:1"], stderr=subprocess.PIPE, text=True
    ) as proxy:
        assert proxy.stderr is not None
        ready = re.fullmatch(r"ready on 127\.0\.0\.1:(\d+)\n", proxy.stderr.readline())
        assert ready
        socket.create_connection(("127.0.0.1", int(ready[1])), timeout=10).close()
        proxy.send_signal(number)
        assert proxy.wait(timeout=10) == 0
