"""Cuts the emulated link of a demo and restores it, while it runs."""

import signal

from client.demo.children import Child
from client.errors import DemoError


class LinkSwitch:
    """`link` is a running `outrider-lab proxy`. Raises DemoError on a system that has no such signals."""

    def __init__(self, link: Child):
        try:
            self._cut, self._restore = signal.SIGUSR1, signal.SIGUSR2
        except AttributeError as error:
            raise DemoError("this system has no signals to cut a link with; run the demo without --page") from error
        self._link = link
        self.is_cut = False

    def turn(self, *, cut: bool) -> None:
        self._link.send_signal(self._cut if cut else self._restore)
        self.is_cut = cut
