"""The limits of the process that runs model-written code."""

from __future__ import annotations

import time

import pytest

from training.demo.check import MEMORY_LIMIT_BYTES, passes

RIGHT = "def f(x):\n    return x"


def test_the_process_runs_under_hard_limits() -> None:
    tests = (
        "import resource",
        "assert resource.getrlimit(resource.RLIMIT_CPU) == (3, 3)",
        f"assert resource.getrlimit(resource.RLIMIT_AS) == ({MEMORY_LIMIT_BYTES}, {MEMORY_LIMIT_BYTES})",
    )
    assert passes(RIGHT, tests, time_limit=2.5)


@pytest.mark.parametrize(("size", "right"), [(MEMORY_LIMIT_BYTES // 8, True), (MEMORY_LIMIT_BYTES, False)])
def test_memory_is_limited(size: int, right: bool) -> None:
    answer = f"def f(x):\n    return len(bytearray({size}))"
    assert passes(answer, (f"assert candidate(1) == {size}",)) is right


def test_the_clock_stops_code_that_sleeps() -> None:
    started = time.monotonic()
    assert not passes("import time\n\ndef f(x):\n    time.sleep(60)", ("assert candidate(1) is None",), time_limit=0.5)
    assert time.monotonic() - started < 20


def test_the_answer_is_a_module_of_its_own() -> None:
    assert passes(f"from __future__ import annotations\n\n{RIGHT}", ("assert candidate(1) == 1",))
    assert not passes("def f(x):\n    return sys.argv", ("assert candidate(1)",))


@pytest.mark.parametrize(
    "end", ["import sys\n\nif __name__ == '__main__':\n    sys.exit(0)", "import os\n\nos._exit(0)"]
)
def test_an_answer_that_ends_before_its_tests_does_not_pass(end: str) -> None:
    assert not passes(f"{RIGHT}\n\n{end}", ("assert candidate(1) == 1",))
