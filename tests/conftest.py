"""Settings for every test: small models run on one thread, the user's caches are not written, and the user's
configuration is not read."""

import asyncio
import gc
import logging
import os
import signal
import urllib.request
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from common.cache import CACHE_VARIABLE
from tests.hand_set_time import HandSetTime

# A busy machine is no failure of a property.
hypothesis.settings.register_profile("outrider", deadline=None)
hypothesis.settings.load_profile("outrider")
# For `make mutate`: the same examples for each mutant, and a failure is enough.
hypothesis.settings.register_profile(
    "mutation",
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)


@pytest.fixture(scope="session", autouse=True)
def _alone_on_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # With more threads than cores, and a drafter for each of many clients, threads would wait for each other.
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("caches")))
        for program in ("OUTRIDER", "OUTRIDERD"):
            patch.setenv(f"{program}_CONFIG", os.devnull)
        yield


@pytest.fixture(autouse=True)
def _no_journal_of_another_test() -> Iterator[None]:
    # A command that ran in this process would keep its log handler for good, on a stderr that is closed by then.
    root, own = logging.getLogger(), logging.getLogger("server.observe.log")
    handlers, level = [*root.handlers], own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)


@pytest.fixture
def hand_set_time(monkeypatch: pytest.MonkeyPatch) -> HandSetTime:
    """In place of the time by which stated costs pass."""
    by_hand = HandSetTime()
    monkeypatch.setattr("common.pacing.time", by_hand)
    return by_hand


@pytest.fixture
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that `client.demo.children` runs need not import what they run."""
    from tests.forked_servers import start_forked  # which few tests need

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_forked)


@pytest.fixture
def unreachable_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names a proxy where nobody listens."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr(urllib.request, "_opener", None)  # which knows the environment of its first use


def pytest_configure() -> None:
    """Where tests run in the background, Ctrl-C may be ignored, which every program that they start would inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests live as long as the run. Garbage collection would go through all of them again and again, while
    they are collected and while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes, each takes the next file. Files of some folders mostly wait and those of others compute, so
    that the files of each folder are spread evenly over the run."""
    if not hasattr(config, "workerinput"):
        return
    folders: dict[str, dict[Path, float]] = {}
    for item in items:
        folder = item.nodeid.split("::")[0].split("/")[1:-1]  # below tests
        folders.setdefault(folder[0] if folder else "", {}).setdefault(item.path, 0.0)
    for files in folders.values():
        for index, path in enumerate(files):
            files[path] = (index + 0.5) / len(files)
    place = {path: part for files in folders.values() for path, part in files.items()}
    items.sort(key=lambda item: place[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is not None and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
