"""Fixtures of several experiments' tests."""

import pytest

from netem.experiments import process_pool
from tests.programs import FORKS


@pytest.fixture
def forked_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function of a process pool still has a process of its own, which need not import everything anew."""
    monkeypatch.setattr(process_pool, "get_context", lambda _: FORKS)
