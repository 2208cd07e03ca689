"""Stores for tests: one in memory that can fail, and a real Redis or Valkey where one is installed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from client.errors import DemoError
from netem.experiments.service.local_store import LocalStore
from server.fleet.fleet import Exchanged, StoreError
from server.sessions.quotas import BucketUse


class SharedMemory:
    """The records of several replicas and their buckets, exchanged as the script does it, without the passage of
    time."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.levels: dict[str, float] = {}
        self.counted: dict[tuple[str, str], float] = {}
        self.is_gone = False
        self.is_silent = False
        """It executes what it is told, and its replies are lost."""
        self.name = "memory"

    async def exchange(self, member: str, record: str, uses: Mapping[str, BucketUse]) -> Exchanged:
        if self.is_gone:
            raise StoreError("the store at memory cannot be used")
        self.records[member] = record
        for name, use in uses.items():
            before = self.counted.get((member, name))
            used = min(use.most, use.used if before is None else use.total - before)
            self.levels[name] = self.levels[name] - used if name in self.levels else use.level
            self.counted[member, name] = use.total
        if self.is_silent:
            raise StoreError("the store at memory cannot be used")
        return Exchanged(dict(self.records), dict(self.levels))

    async def leave(self, member: str) -> None:
        if self.is_gone:
            raise StoreError("the store at memory cannot be used")
        self.records.pop(member, None)


def real_store(folder: Path) -> LocalStore:
    """Skips the test where no store is installed."""
    try:
        return LocalStore(folder)
    except DemoError as error:
        pytest.skip(str(error))
