"""netem.links.command and netem.links.process_guard: what a command sees, how it ends, and that nothing outlives
it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.address import Address
from common.protocol.errors import MisuseError
from netem.links import process_guard
from netem.links.command import check_command, run_command
from tests.netem.links.processes import WITHOUT_PRIVILEGE, can_drop_privilege, comes_true, is_running

SERVER = Address("127.0.0.1", 7070)


@pytest.mark.parametrize(
    ("command", "has_server", "reason"),
    [
        ((), True, "no command to run"),
        (("no-such-command-anywhere",), True, "no command 'no-such"),
        ((sys.executable, "--server={server}"), False, "give --to"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    command: tuple[str, ...], has_server: bool, reason: str
) -> None:
    with pytest.raises(MisuseError, match=reason):
        check_command(command, has_server)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
async def test_the_exit_code_is_the_commands(script: str, code: int) -> None:
    assert await run_command(["sh", "-c", script], SERVER, None) == code


async def test_it_finds_the_server_in_its_arguments_and_its_environment(tmp_path: Path) -> None:
    script = 'echo "$1 $OUTRIDER_LINK_SERVER" > "$2"'
    await run_command(["sh", "-c", script, "sh", "at={server}", str(tmp_path / "said")], SERVER, None)
    assert (tmp_path / "said").read_text() == "at=127.0.0.1:7070 127.0.0.1:7070\n"
    assert "OUTRIDER_LINK_SERVER" not in os.environ


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can find what a command left behind")
async def test_what_it_left_in_the_background_ends_with_it() -> None:
    # A session of its own is what daemons make themselves; the number is ours alone.
    mark = f"sleep 77{os.getpid()}"
    assert await run_command(["sh", "-c", f"setsid {mark} & setsid {mark} & sleep 0.2; exit 3"], SERVER, None) == 3
    assert comes_true(lambda: not is_running(mark))


@can_drop_privilege
def test_without_privilege_what_it_left_in_the_background_ends_too() -> None:
    mark = f"sleep 76{os.getpid()}"
    wrapper = [*WITHOUT_PRIVILEGE, sys.executable, "-m", process_guard.__name__, "-", str(os.getpid())]
    script = f"setsid {mark} & sleep 0.2; exit 4"
    assert subprocess.run([*wrapper, "sh", "-c", script], timeout=20, check=False).returncode == 4
    assert comes_true(lambda: not is_running(mark))
