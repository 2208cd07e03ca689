"""The other ranks of a `--tensor-parallel` server as child processes of rank 0, which meet at a file.

Standard library only. It may not know what a rank does.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from common.programs import die_with_parent
from server.rank_info import LOCAL_RANK, LOCAL_RANKS, RANK, RANKS

_FOLLOWER = Path(__file__).with_name("follower.py")
_NETWORK = "GLOO_SOCKET_IFNAME"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
_ENDING_S = 5.0


class ChildRanks:
    """They end when this process does, however it goes."""

    def __init__(self, ranks: int, device: str, on_end: Callable[[str], object]):
        """`on_end` gets a sentence, in another thread, when one ends before `close` is called."""
        self._folder = TemporaryDirectory(prefix="outriderd-")
        self.store = str(Path(self._folder.name) / "ranks")
        self._on_end = on_end
        self._is_closing = False
        # Gloo would listen at the address of the host's name; this concerns nobody outside.
        os.environ.setdefault(_NETWORK, _LOOPBACK)
        self._children = [self._start(rank, ranks, device) for rank in range(1, ranks)]
        for rank, child in enumerate(self._children, 1):
            threading.Thread(target=self._watch, args=(rank, child), daemon=True).start()

    def _start(self, rank: int, ranks: int, device: str) -> "subprocess.Popen[bytes]":
        known = {RANK: rank, RANKS: ranks, LOCAL_RANK: rank, LOCAL_RANKS: ranks}
        return subprocess.Popen(
            # -P: nothing is imported from where the operator happens to be.
            (sys.executable, "-P", "-m", die_with_parent.__name__, str(_FOLLOWER), device, self.store),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **{name: str(number) for name, number in known.items()}},
        )

    def _watch(self, rank: int, child: "subprocess.Popen[bytes]") -> None:
        code = child.wait()
        if not self._is_closing:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            self._on_end(f"rank {rank} of the target ended {how}; start the server again")

    def expect_end(self) -> None:
        """From now on it is no news when one ends."""
        self._is_closing = True

    def kill(self) -> None:
        """Ends all at once, also one that hangs."""
        self.expect_end()
        for child in self._children:
            child.kill()
        self._folder.cleanup()

    def close(self) -> None:
        """Ends those that have not ended."""
        self.expect_end()
        for child in self._children:
            assert child.stdin is not None
            child.stdin.close()
        for child in self._children:
            try:
                child.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                child.kill()
        self._folder.cleanup()
