"""Stores for tests: one in memory that can fail, and a real Redis or Valkey where one is installed."""

import shutil
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

import pytest

from server.fleet.fleet import Exchanged, StoreError
from server.sessions.quotas import BucketUse


class SharedMemory:
    """The records of several replicas and their buckets, exchanged as the script does it, without the passage of
    time."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.levels: dict[str, float] = {}
        self.is_gone = False
        self.name = "memory"

    async def exchange(self, address: str, record: str, uses: Mapping[str, BucketUse]) -> Exchanged:
        if self.is_gone:
            raise StoreError("the store at memory cannot be used")
        self.records[address] = record
        for name, use in uses.items():
            self.levels[name] = self.levels[name] - use.used if name in self.levels else use.level
        return Exchanged(dict(self.records), dict(self.levels))

    async def leave(self, address: str) -> None:
        if self.is_gone:
            raise StoreError("the store at memory cannot be used")
        self.records.pop(address, None)


class RealStore:
    """A server of a store on a free port of this machine, which forgets everything when it ends."""

    def __init__(self, folder: Path):
        self._program = shutil.which("valkey-server") or shutil.which("redis-server")
        if self._program is None:
            pytest.skip("needs valkey-server or redis-server; Debian has packages of these names")
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.begin()

    def begin(self) -> None:
        assert self._program is not None
        options = ("--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        self._process = Popen((self._program, *options, "--dir", str(self._folder)), stdout=DEVNULL)
        while self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.02)
        raise AssertionError("the store has ended")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
