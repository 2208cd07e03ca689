"""netem.links.process_guard as a process: a signal that comes before its command runs is not lost."""

import os
import signal
import subprocess
import sys

from tests.netem.links.here import needs_tun

_SLOW_TO_BEGIN = """
import sys, time
from netem.links import process_guard

def mount_slowly():
    print("beginning", flush=True)
    time.sleep(1.0)

process_guard.kernel.mount_own_proc = mount_slowly
sys.exit(process_guard.main("-", *sys.argv[1:]))
"""


@needs_tun
def test_a_termination_signal_before_the_command_runs_ends_it() -> None:
    line = [sys.executable, "-c", _SLOW_TO_BEGIN, str(os.getpid()), "sleep", "60"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "beginning\n"
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(timeout=20) == 128 + signal.SIGTERM
        finally:
            process.kill()
