from pathlib import Path

import pytest

from netem.experiments import busy_cores
from netem.experiments.busy_cores import is_quiet
from netem.virtual.clock import run_virtually

PATIENCE_S = 60.0


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The cores in use from now on, one after the other; the last for good. 100 ticks are a second of one core."""
    cores, stat = [0.0], tmp_path / "stat"
    ticks = [1000.0, 9000.0]

    def read() -> tuple[int, int]:
        stat.write_text(f"cpu  {int(ticks[0])} 0 0 {int(ticks[1])} 0 0 0 0 0 0\ncpu0 1 2 3 4\n")
        busy = cores.pop(0) if len(cores) > 1 else cores[0]
        ticks[0] += 500 * busy
        ticks[1] += 500 * (2 - busy)
        return real()

    real = busy_cores._ticks
    monkeypatch.setattr(busy_cores, "_PROC_STAT", stat)
    monkeypatch.setattr(busy_cores, "_ticks", read)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    stat.touch()
    return cores


def test_without_linuxs_counters_the_load_is_read_as_seldom(tmp_path, monkeypatch):
    asked = []

    def load_average() -> tuple[float, float, float]:
        asked.append(1)
        assert len(asked) < 100
        return 1.0, 1.0, 1.0

    monkeypatch.setattr(busy_cores, "_PROC_STAT", tmp_path / "none")
    monkeypatch.setattr("os.getloadavg", load_average)
    assert run_virtually(is_quiet(PATIENCE_S)) is False
    assert len(asked) == PATIENCE_S / 5


@pytest.mark.parametrize(("cores", "expected"), [([0.1], True), ([1.5], False), ([1.5] * 6 + [0.0], True)])
def test_a_machine_is_quiet_once_others_leave_it_in_peace(load, cores, expected):
    load[:] = cores
    assert run_virtually(is_quiet(PATIENCE_S)) is expected
