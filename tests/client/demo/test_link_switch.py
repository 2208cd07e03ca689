"""The switch of the demo's link."""

import signal

import pytest

from client.demo.children import LinkSwitch
from client.errors import DemoError


class FakeLink:
    def __init__(self):
        self.received = []

    def send_signal(self, number):
        self.received.append(number)


def test_it_cuts_and_restores_and_knows_which():
    link = FakeLink()
    switch = LinkSwitch(link)
    assert not switch.is_cut
    for cut in (True, False, False):
        switch.turn(cut=cut)
        assert switch.is_cut is cut
    assert link.received == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2]


def test_a_system_without_such_signals_is_told(monkeypatch):
    monkeypatch.delattr(signal, "SIGUSR1")
    with pytest.raises(DemoError, match="without --page"):
        LinkSwitch(FakeLink())
