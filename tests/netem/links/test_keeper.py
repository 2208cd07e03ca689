"""netem.links.keeper as a process: what it is told before its command runs is not lost."""

import os
import signal
import subprocess
import sys

from tests.netem.links.here import needs_tun

_SLOW_TO_BEGIN = """
import sys, time
from netem.links import keeper

def mount_slowly():
    print("beginning", flush=True)
    time.sleep(1.0)

keeper.kernel.mount_own_proc = mount_slowly
sys.exit(keeper.main("-", *sys.argv[1:]))
"""


@needs_tun
def test_being_asked_to_end_before_the_command_runs_ends_it() -> None:
    line = [sys.executable, "-c", _SLOW_TO_BEGIN, str(os.getpid()), "sleep", "60"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "beginning\n"
        keeper.send_signal(signal.SIGTERM)
        try:
            assert keeper.wait(timeout=20) == 128 + signal.SIGTERM
        finally:
            keeper.kill()
