"""What `outrider-lab gpu` runs: its plan of times, the order, and what may begin when."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.models.errors import CheckpointError
from netem.cli import run_gpu
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import DEVICE
from netem.experiments.gpu_parts import (
    GPU,
    LAB,
    REHEARSAL,
    TESTS,
    USABLE,
    Part,
    Scale,
    State,
    left_out,
    make_parts,
    next_part,
)
from training.demo.recipe import DemoSettings, open_work

BACKGROUND = Part("target", "training.cli", (), 5, in_background=True)
FIRST, LONG = Part("first", LAB, (), 1, timed=True), Part("long", LAB, (), 9, timed=True)
LAST = Part("last", LAB, (), 1, needs=("target", "first"))
PARTS = (BACKGROUND, FIRST, LONG, LAST)


def parts_of(scale: Scale) -> dict[str, Part]:
    return {
        part.name: part for part in make_parts(scale, Path("/clone/runs/gpu"), Path("/elsewhere/work"), Path("/clone"))
    }


@pytest.mark.parametrize("scale", [GPU, REHEARSAL])
def test_what_the_target_does_not_train_beside_fits_into_the_time_with_it(scale: Scale) -> None:
    parts = parts_of(scale)
    alone = [part.minutes for part in parts.values() if part.timed or "target" in part.needs or part.in_background]
    assert sum(alone) == pytest.approx(scale.minutes)
    assert scale.training_minutes > 0.2


def test_a_longer_time_is_the_trainings_alone() -> None:
    longer = replace(GPU, minutes=GPU.minutes + 11)
    assert longer.training_minutes == pytest.approx(GPU.training_minutes + 11)
    changed = {name for name, part in parts_of(longer).items() if part != parts_of(GPU)[name]}
    assert changed == {"target"}
    assert replace(GPU, minutes=38).training_minutes >= 19


def test_the_rehearsal_has_the_same_parts_in_the_same_order() -> None:
    assert list(parts_of(REHEARSAL)) == list(parts_of(GPU))
    for part, small in zip(parts_of(GPU).values(), parts_of(REHEARSAL).values(), strict=True):
        assert (part.timed, part.needs, part.made, part.out) == (small.timed, small.needs, small.made, small.out)
        assert "cuda" not in small.arguments or part.module == TESTS


def test_what_lies_in_the_clone_is_told_without_the_path_of_the_machine() -> None:
    engine, target = (parts_of(GPU)[name] for name in ("engine-llama", "target"))
    assert engine.arguments[engine.arguments.index("--out") + 1] == "runs/gpu/engine-llama"
    assert engine.out == Path("/clone/runs/gpu/engine-llama")
    assert "/elsewhere/work/trained" in target.arguments


@pytest.mark.parametrize("scale", [GPU, REHEARSAL])
def test_the_training_of_the_target_begins_anywhere_and_resumes_where_it_began(scale: Scale, tmp_path: Path) -> None:
    """By the trainer's own rules."""
    parts = make_parts(scale, tmp_path / "out", tmp_path / "work", tmp_path)
    (target,) = (part for part in parts if part.name == "target")
    assert "--resume" not in target.arguments
    out, settings = tmp_path / target.arguments[target.arguments.index("--out") + 1], DemoSettings(1, 2, data=False)
    open_work(out, settings, resume=False)
    assert target.begun is not None
    assert target.begun.exists()
    assert open_work(out, settings, resume=True).settings == target.begun


def test_every_file_with_a_test_for_a_gpu_is_collected() -> None:
    """Reading all of them takes longer than these tests do."""
    root = Path(__file__).parents[3]
    marked = {
        str(file.relative_to(root))
        for file in root.glob("tests/**/test_*.py")
        if "pytest.mark." + "cuda" in file.read_text()
    }
    assert set(GPU.tested) == marked
    assert set(REHEARSAL.tested) <= marked


def test_experiments_name_what_runs_on_a_gpu_and_need_nothing_from_outside() -> None:
    asked = [part.arguments for part in parts_of(GPU).values() if part.module == LAB]
    assert {each[1] for each in asked} == {"engine", "sizes", "single-device", "load-timed"}
    assert all(each[each.index(DEVICE) + 1] == "cuda" for each in asked)
    common = {"--out", "--quick", "--seed"}
    for each in asked:
        assert {word for word in each if word.startswith("--")} - common <= set(EXPERIMENTS[each[1]].options)
    assert all(set(part.needs) <= parts_of(GPU).keys() for part in parts_of(GPU).values())


def test_parts_begin_in_order_once_what_they_need_is_there_and_they_fit() -> None:
    assert next_part(PARTS, {}, (), 1000) == BACKGROUND
    assert next_part(PARTS, {}, ("target",), 1000) == FIRST
    done = {"first": State.DONE}
    assert next_part(PARTS, done, ("target",), 1000) == LONG
    assert next_part(PARTS, done, ("target",), 500) is None
    assert next_part(PARTS, done | {"target": State.INVALID}, (), 500) == LAST
    assert next_part(PARTS, done | {"target": State.DONE}, (), 30) is None
    assert next_part(PARTS, dict.fromkeys(("target", "first", "long", "last"), State.DONE), (), 1000) is None


@pytest.mark.parametrize("state", State)
def test_what_needs_a_part_that_failed_is_left_out(state: State) -> None:
    assert left_out(LAST, {"target": state}) == ("" if state in USABLE else "target")
    assert left_out(FIRST, {"target": state}) == ""


def test_without_a_gpu_the_command_says_so_and_begins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(CheckpointError, match="the device 'cuda' is not in this machine"):
        run_gpu(tmp_path / "out")
    assert not (tmp_path / "out").exists()
