"""Conversations run on a virtual clock, so that no outcome depends on how busy the machine is."""

from collections.abc import Mapping

import pytest
from pytest_asyncio.plugin import LoopFactory

from netem.virtual.clock import VirtualLoop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    return {"virtual": VirtualLoop}
