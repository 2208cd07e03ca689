"""netem.cli as a person runs it: output, exit codes, signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netem import cli
from tests.netem.links.here import needs_tun
from tests.netem.links.processes import (
    WITHOUT_PRIVILEGE,
    can_drop_privilege,
    comes_true,
    is_running,
    namespace_is_held,
    namespaces_held_by,
    runs_itself,
)

COMMAND = [sys.executable, "-c", "from netem.cli import main; main()"]


def outrider_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_profiles_are_listed_within_100_columns() -> None:
    listing = outrider_lab("profiles")
    assert listing.returncode == 0
    assert all(name in listing.stdout for name in ("4g", "5g", "lte-asymmetric", "satellite", "tunnel", "lan", "none"))
    assert all(len(line) <= 100 for line in listing.stdout.splitlines())
    assert "…" not in listing.stdout


def test_help_loads_neither_torch_nor_asyncio() -> None:
    code = "import sys, netem.cli; sys.exit(bool({'torch', 'asyncio', 'rich.table'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["proxy"], "--help"),
        (["proxy", "sattelite", "--to", "127.0.0.1:1"], "did you mean satellite"),
        (["proxy", "4g", "--to", "nonsense"], "write HOST:PORT"),
        (["proxy", "4g", "--to", "127.0.0.1:0"], "names no port to connect to"),
        (["proxy", "4g", "--to", "127.0.0.1:1", "--listen", "nonsense"], "write HOST:PORT"),
        (["proxy", "4g", "--to", "127.0.0.1:1", "--backend", "vpn"], "choose one of proxy, tun, tc"),
        (["proxy", "4g", "--to", "127.0.0.1:1", "--up-trace", "absent"], "cannot be read as a trace"),
        (["link", "4g"], "write it after --"),
        (["link", "4g", "--", "no-such-command-anywhere"], "no command 'no-such-command-anywhere'"),
        (["link", "4g", "--", "echo", "{server}"], "give --to HOST:PORT"),
        (["link", "4g", "--backend", "proxy", "--", "true"], "give --to HOST:PORT"),
        (["link", "tunel", "--", "true"], "did you mean tunnel"),
        (["calibrate", "4g", "--backend", "vpn"], "choose one of proxy, tun, tc"),
        (["trace", "none", "--out", "/nowhere"], "unlimited rate"),
        (["trace", "4g", "--out", "/nowhere", "--seconds", "100000000"], "3600"),
        (["run", "netwrk", "--out", "/nowhere"], "did you mean network"),
        (["run", "network", "--out", __file__], "cannot be a folder of results"),
        (["run", "single-device", "--out", "/nowhere", "--seed", "-1"], "greater than or equal to 0"),
        (["run", "families", "--out", "/nowhere", "--seed", "9" * 30], "less than or equal to 4294967295"),
        (["run", "network", "--out", "/nowhere", "--seed", "9" * 5000], "exceeded maximum size"),
    ],
)
def test_misuse_is_answered_in_one_sentence(
    arguments: list[str], advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["outrider-lab", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert advice in printed.err
    assert printed.err.count("\n") == 1


def test_misuse_of_the_installed_program_is_answered_in_one_sentence() -> None:
    """What is printed on import would show here."""
    answer = outrider_lab("link", "4g")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "write it after --" in answer.stderr
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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere connections wait")
def test_the_proxy_is_cut_and_restored_by_signals(server: str) -> None:
    with subprocess.Popen([*COMMAND, "proxy", "none", "--to", server], stderr=subprocess.PIPE, text=True) as proxy:
        assert proxy.stderr is not None
        address = ("127.0.0.1", int(proxy.stderr.readline().rpartition(":")[2]))

        def answers() -> bool:
            try:
                with socket.create_connection(address, timeout=10) as connection:
                    return connection.recv(1) == bytes([42])
            except ConnectionError:
                return False

        assert answers()
        proxy.send_signal(signal.SIGUSR1)
        assert comes_true(lambda: not answers())
        proxy.send_signal(signal.SIGUSR2)
        assert comes_true(answers)
        proxy.terminate()
        assert proxy.wait(timeout=10) == 0


ASK_THE_SERVER = """
import os, socket, sys
host, port = sys.argv[1].split(":")
with socket.create_connection((host, int(port)), timeout=10) as connection:
    sys.exit(connection.recv(1)[0])
"""


@pytest.fixture
def server() -> Iterator[str]:
    """Sends the byte 42 to whoever connects, until it is closed."""
    program = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        connection.sendall(bytes([42]))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.mark.parametrize("backend", ["proxy", pytest.param("tun", marks=needs_tun), "auto"])
def test_a_command_behind_a_link_reaches_the_server_and_its_exit_code_is_ours(backend: str, server: str) -> None:
    answer = outrider_lab(
        *("link", "5g", "--backend", backend, "--to", server, "--", sys.executable, "-c", ASK_THE_SERVER, "{server}")
    )
    assert answer.returncode == 42
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("backend", ["proxy", pytest.param("tun", marks=needs_tun)])
def test_what_came_out_of_a_link_is_recorded_and_can_be_replayed(backend: str, server: str, tmp_path: Path) -> None:
    ask = ("--to", server, "--backend", backend, "--", sys.executable, "-c", ASK_THE_SERVER, "{server}")
    assert outrider_lab("link", "4g", "--record", str(tmp_path), *ask).returncode == 42
    recorded = ("--up-trace", str(tmp_path / "up.trace"), "--down-trace", str(tmp_path / "down.trace"))
    assert outrider_lab("link", "none", *recorded, *ask).returncode == 42


def test_a_folder_that_cannot_be_recorded_to_is_refused_before_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recording = ("link", "4g", "--to", "127.0.0.1:1", "--record", str(tmp_path / "file" / "folder"))
    answer = outrider_lab(*recording, "--", "touch", str(tmp_path / "ran"))
    assert answer.returncode == 1
    assert "cannot write traces" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def test_traces_are_generated(tmp_path: Path) -> None:
    assert outrider_lab("trace", "lte-drive", "--drive", "1", "--seconds", "2", "--out", str(tmp_path)).returncode == 0
    moments = [int(line) for line in (tmp_path / "up.trace").read_text().split()]
    assert moments == sorted(moments)
    assert moments[-1] <= 2000


def test_calibration_speaks_json() -> None:
    answer = outrider_lab("calibrate", "lan", "--backend", "proxy", "--quick", "--json")
    measured = json.loads(answer.stdout)
    assert (measured["profile"], measured["backend"]) == ("lan", "proxy")
    assert measured["up"]["nominal_rate"] == 100e6
    # A busy machine may be too slow; then it says so.
    assert answer.returncode == (1 if measured["faults"] else 0)


@can_drop_privilege
@pytest.mark.parametrize("backend", ["tun", "tc"])
def test_a_backend_that_is_not_permitted_is_a_failure_that_names_one_that_is(backend: str) -> None:
    command = [*WITHOUT_PRIVILEGE, *COMMAND, "link", "4g", "--backend", backend, "--", "true"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 1
    assert answer.stderr.endswith("what works here: --backend proxy\n")
    assert answer.stderr.count("\n") == 1


@needs_tun
def test_the_proxy_command_serves_a_tun_link(server: str) -> None:
    command = [*COMMAND, "proxy", "5g", "--to", server, "--backend", "tun", "--congestion", "reno"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as proxy:
        assert proxy.stderr is not None
        ready = re.fullmatch(r"ready on 127\.0\.0\.1:(\d+)\n", proxy.stderr.readline())
        assert ready
        with socket.create_connection(("127.0.0.1", int(ready[1])), timeout=10) as connection:
            assert connection.recv(1) == bytes([42])
        proxy.send_signal(signal.SIGTERM)
        assert proxy.wait(timeout=10) == 0


@needs_tun
def test_a_killed_proxy_leaves_no_namespace_behind() -> None:
    command = [*COMMAND, "proxy", "4g", "--to", "127.0.0.1:1", "--backend", "tun"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as proxy:
        assert proxy.stderr is not None
        proxy.stderr.readline()
        held = namespaces_held_by(proxy.pid)
        assert len(held) == 2
        proxy.kill()
        proxy.wait(timeout=10)
    assert comes_true(lambda: not any(namespace_is_held(namespace) for namespace in held))


@needs_tun
def test_a_killed_link_leaves_neither_its_command_nor_what_that_started() -> None:
    mark = f"sleep 78{os.getpid()}"
    command = [*COMMAND, "link", "4g", "--backend", "tun", "--", "sh", "-c", f"setsid {mark} & exec {mark}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as link:
        assert comes_true(lambda: runs_itself(mark))
        held = namespaces_held_by(link.pid)
        assert len(held) == 2
        link.kill()
        link.wait(timeout=10)
    assert comes_true(lambda: not is_running(mark))
    assert comes_true(lambda: not any(namespace_is_held(namespace) for namespace in held))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends what a command leaves behind")
@pytest.mark.parametrize("backend", ["proxy", pytest.param("tun", marks=needs_tun)])
def test_a_link_that_is_asked_to_end_ends_its_command(backend: str) -> None:
    mark = f"sleep 79{os.getpid()}"
    command = [*COMMAND, "link", "4g", "--backend", backend, "--to", "127.0.0.1:1", "--", *mark.split()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as link:
        assert comes_true(lambda: runs_itself(mark))
        link.send_signal(signal.SIGTERM)
        assert link.wait(timeout=10) == 128 + signal.SIGTERM
    assert comes_true(lambda: not is_running(mark))
