"""What a run that was broken off had finished is not computed again; of another run, or in another order, it is."""

from pathlib import Path

import pytest

from netem.experiments.steps import StepFile, Steps

ORIGIN = {"commit": "c0ffee"}


class Run:
    """Steps of a run in a file, and which of them it computed; an hour passes with each."""

    def __init__(self, path: Path, origin: object = ORIGIN):
        self.computed: list[str] = []
        self._hours = 0.0
        self.steps = StepFile(path, origin, lambda: self._hours)

    def __call__(self, name: str, result: object) -> object:
        def compute() -> object:
            self.computed.append(name)
            self._hours += 1.0
            return result

        return self.steps.once(name, compute)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a run that was broken off behind two steps."""
    path = tmp_path / "unfinished"
    run = Run(path)
    assert (run("one", (1, "a")), run("two", {"b": 2})) == ((1, "a"), {"b": 2})
    assert run.computed == ["one", "two"]
    run.steps.close()
    return path


def test_what_is_finished_is_not_computed_again(path: Path) -> None:
    for _ in range(2):
        run = Run(path)
        assert (run("one", None), run("two", None), run("three", 3)) == ((1, "a"), {"b": 2}, 3)
    assert run.computed == []
    assert run.steps.seconds == 3.0, "the hours of all its beginnings"
    run("four", 4)
    assert run.steps.seconds == 4.0
    run.steps.close()
    run.steps.forget()
    assert not path.exists()


def test_steps_of_another_origin_are_forgotten(path: Path) -> None:
    other = Run(path, {"commit": "decade"})
    assert other("one", "new") == "new"
    other.steps.close()
    again = Run(path, {"commit": "decade"})
    assert again("one", "newer") == "new"
    assert again("two", "new") == "new"


def test_from_a_step_of_another_name_on_all_are_computed(path: Path) -> None:
    run = Run(path)
    assert (run("another", 5), run("two", 6)) == (5, 6)
    run.steps.close()
    assert Run(path)("another", 7) == 5


def test_a_step_that_was_broken_off_while_it_was_written_is_computed_again(path: Path) -> None:
    whole = path.read_bytes()
    for lost in (1, 5):
        path.write_bytes(whole[:-lost])
        run = Run(path)
        assert (run("one", 1), run("two", 2), run("three", 3)) == ((1, "a"), 2, 3)
        assert run.computed == ["two", "three"]
        run.steps.close()
        assert Run(path)("one", 1) == (1, "a")


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80"])
def test_a_file_that_is_none_of_ours_is_begun_anew(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    run = Run(path)
    assert run("one", 1) == 1
    run.steps.close()
    assert Run(path)("one", 2) == 1


def test_a_run_that_fails_before_its_first_step_leaves_no_file_and_takes_none_away(path: Path, tmp_path: Path) -> None:
    Run(tmp_path / "new").steps.close()
    assert not (tmp_path / "new").exists()
    for origin in (ORIGIN, {"commit": "decade"}):
        Run(path, origin).steps.close()
        assert Run(path)("one", 1) == (1, "a")


def test_without_a_file_each_is_computed() -> None:
    steps, results = Steps(), iter((1, 2))
    assert [steps.once("one", results.__next__) for _ in range(2)] == [1, 2]
