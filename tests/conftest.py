"""What holds for every test: small models run on one thread, nothing goes to the caches of whoever runs them, and what
they have configured counts for nothing."""

import logging
import os
import signal
from collections.abc import Iterator

import pytest
import torch

from common.cache import CACHE_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _alone_on_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # More threads than cores would wait for each other, with a drafter for each of many clients.
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("caches")))
        for program in ("OUTRIDER", "OUTRIDERD"):
            patch.setenv(f"{program}_CONFIG", os.devnull)
        yield


@pytest.fixture(autouse=True)
def _no_journal_of_another_test() -> Iterator[None]:
    # A command that ran in this process would keep one for good, on a stderr that is closed by then.
    root, own = logging.getLogger(), logging.getLogger("server.observe.log")
    handlers, level = [*root.handlers], own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)


def pytest_configure() -> None:
    """Who runs tests in the background may have had Ctrl-C ignored, which every program that they start inherits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
