import pytest

from server.supervisor import supervisor as supervisor_module


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor looks after its replicas all the time."""
    monkeypatch.setattr(supervisor_module, "TICK_S", 0.001)
    monkeypatch.setattr(supervisor_module, "PROBE_INTERVAL_S", 0.001)
