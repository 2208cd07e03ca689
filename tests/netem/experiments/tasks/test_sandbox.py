"""What a program may not do, and that every verdict names its cause."""

import fcntl
import os
import sys
import time
from pathlib import Path

import pytest

from netem.experiments.tasks import confined, sandbox
from netem.experiments.tasks.sandbox import ProgramOutcome, ProgramVerdict, SandboxError, SandboxLimits, run, verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox stands on Linux")

PASSED = ProgramVerdict(ProgramOutcome.PASSED)


def error_of(*program: str) -> str:
    judged = run(program)
    assert judged.outcome is ProgramOutcome.FAILED
    return judged.error


def test_sources_share_one_module() -> None:
    dataclass = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int"
    )
    assert run(["start = 1", dataclass, "assert P(start) == P(1)"]) == PASSED
    assert error_of("start = 1", "assert start == 2, 'one'") == "AssertionError: one"


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        ("import os\nos._exit(0)", "the process ended itself, status 0"),
        ("import signal\nsignal.raise_signal(signal.SIGSEGV)", "the process ended itself, SIGSEGV"),
        ("raise ValueError('first\\nlast\\n')", "last"),
        ("'\ud800'", "UnicodeEncodeError: "),
        ("input()", "EOFError: "),
        ("open('flood', 'w').write('x' * 2**21)", "OSError: [Errno 27]"),
        ("import numpy", "ModuleNotFoundError: "),
    ],
)
def test_a_failure_tells_its_last_line(program: str, error: str) -> None:
    assert error_of(program).startswith(error)


def test_the_error_is_bounded() -> None:
    assert len(error_of("raise ValueError('long' * 10**6)")) < 400


def test_guarded_code_is_no_answer() -> None:
    assert run(["if __name__ == '__main__':\n    raise ValueError"]) == PASSED


@pytest.mark.parametrize(
    "program",
    ["import time\ntime.sleep(60)", "import sys\nwhile True:\n    sys.stdout.write('flood' * 1000)"],
)
def test_wall_time_ends_it(program: str) -> None:
    started = time.monotonic()
    assert run([program], SandboxLimits(seconds=1)) == ProgramVerdict(ProgramOutcome.TIMED_OUT)
    assert 1 <= time.monotonic() - started < 20


def test_processor_time_ends_it() -> None:
    started = time.monotonic()
    assert run(["while True:\n    pass"], SandboxLimits(seconds=60, cpu_seconds=0.5)) == ProgramVerdict(
        ProgramOutcome.TIMED_OUT
    )
    assert time.monotonic() - started < 40


@pytest.mark.parametrize(("size", "outcome"), [(2**26, ProgramOutcome.PASSED), (2**28, ProgramOutcome.OUT_OF_MEMORY)])
def test_memory_is_limited(size: int, outcome: ProgramOutcome) -> None:
    assert run([f"bytearray({size})"], SandboxLimits(memory_bytes=2**28)).outcome is outcome


def test_a_program_sees_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SECRET", "ours")
    with open(__file__) as ours:
        inheritable = fcntl.fcntl(ours, fcntl.F_DUPFD, 100)
    try:
        environment = "import os\nassert 'OUTRIDER_SECRET' not in os.environ\nassert os.listdir() == []"
        assert run([environment]) == PASSED
        assert error_of(f"import os\nos.fstat({inheritable})").startswith("OSError: [Errno 9]")
    finally:
        os.close(inheritable)


def test_the_process_runs_under_hard_limits() -> None:
    limits = SandboxLimits(cpu_seconds=2.5, memory_bytes=2**28, file_bytes=2**10)
    expected = {"CPU": (3, 4), "AS": (2**28, 2**28), "FSIZE": (2**10, 2**10), "NPROC": (0, 0), "CORE": (0, 0)}
    ask = f"got = {{name: resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in {list(expected)}}}"
    assert run(["import resource", ask, f"assert got == {expected}, got"], limits) == PASSED


def test_what_a_program_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    number = tmp_path / "number"
    start = f"import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\nopen({str(number)!r}, 'w')"
    monkeypatch.setattr(confined, "__file__", str(script))
    for after in ("", "time.sleep(600)"):
        script.write_text(f"{start}.write(str(child.pid))\n{after}")
        with pytest.raises(SandboxError):
            run([], SandboxLimits(seconds=2))
        assert has_ended(int(number.read_text()))


def has_ended(process: int) -> bool:
    """Also where nobody has yet asked how."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_files_are_written_in_a_directory_that_is_gone_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.tempfile, "tempdir", str(tmp_path))
    outside = tmp_path / "outside"
    outside.write_text("ours")
    assert run(["import os\nos.mkdir('a')\nopen('a/b', 'w').write('theirs')\nos.chmod('a', 0)"]) == PASSED
    assert error_of(f"open({str(outside)!r}, 'a')").startswith("PermissionError: the sandbox refuses open")
    assert run([f"assert open({str(outside)!r}).read() == 'ours'"]) == PASSED
    assert [each.name for each in tmp_path.iterdir()] == ["outside"]


def test_a_process_that_never_gets_ready_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = tmp_path / "asleep.py"
    asleep.write_text("import time\ntime.sleep(60)")
    with monkeypatch.context() as patch:
        patch.setattr(confined, "__file__", str(asleep))
        with pytest.raises(SandboxError, match="its time was up"):
            run(["pass"], SandboxLimits(seconds=0.1))
    with pytest.raises(SandboxError, match="before the program's turn: OverflowError"):
        run(["pass"], SandboxLimits(memory_bytes=2**80))
    monkeypatch.setattr(sys, "executable", "no-such-interpreter")
    with pytest.raises(SandboxError, match="could not be started"):
        run(["pass"])


def test_a_kill_from_outside_is_no_verdict() -> None:
    with pytest.raises(SandboxError, match="killed from outside"):
        verdict(-9, "ready\n")
    assert verdict(None, "ready\n") == ProgramVerdict(ProgramOutcome.TIMED_OUT)
    assert verdict(None, "ready\npassed\n") == PASSED
    assert verdict(-40, "ready\n") == ProgramVerdict(ProgramOutcome.FAILED, "the process ended itself, signal 40")
