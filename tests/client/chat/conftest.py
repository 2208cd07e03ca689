"""A server of random models, with a draft that wants draft state and one that is the target itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.wiretap import Wiretap, tapped
from tests.daemon import outriderd
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint
from tests.programs import finished


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("models")
    target = make_checkpoint(folder / "target", "llama", seed=1)
    moa = make_moa_draft(folder / "moa", target)
    same = make_checkpoint(folder / "same", "llama", seed=1)
    drafts = ("--draft", str(moa), "--draft", str(same))
    with outriderd("--target", str(target), *drafts, "--dtype", "float64") as (_, address):
        yield address


@pytest.fixture(scope="session")
def cache(tmp_path_factory, server) -> Path:
    """The bundles are in it."""
    folder = tmp_path_factory.mktemp("cache")
    for draft in ("moa", "same"):
        finished("outrider", "pull", "--server", server, "--cache-dir", str(folder), "--draft", draft)
    return folder


@pytest.fixture
def tap(server) -> Iterator[Wiretap]:
    with tapped(server) as tap:
        yield tap
