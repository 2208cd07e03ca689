"""What `outrider-lab gpu` runs on a machine that has a GPU for a short while: its parts, the time of each, and which of
them comes next. Pure; it starts nothing.

The target trains in the background, whenever no timed part runs: beside the tests, which nobody times, and between and
after the timed parts, for which it is halted. So it gets what the others leave of the whole time: 7 minutes of 25, 20
of 38. What `tests`, `data`, `engine-qwen` and `engine-llama` take was measured on an H200, the others are estimates.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

LAB, TRAIN, TESTS = "netem.cli", "training.cli", "pytest"
"""The modules that commands run."""

QWEN, LLAMA = "Qwen3-0.6B", "Llama-3.1-8B"

_LEAST_TRAINING = 0.2
_AROUND_TRAINING = 1.0
"""Minutes in which a target's tokenizer is made before, and it is saved and judged behind."""
_SECONDS = 60
_BESIDE_TRAINING = ("tests", "data")


class State(StrEnum):
    """Of a part that is settled: it is not run again."""

    DONE = "done"
    INVALID = "not valid"  # results with faults
    FAILED = "failed"
    LEFT_OUT = "left out"  # it needs one that failed


USABLE = (State.DONE, State.INVALID)


@dataclass(frozen=True, slots=True)
class Part:
    """minutes: what it is expected to take; it may take twice as long. timed: nothing else may use the GPU meanwhile.
    needs: parts that must have ended well before. out: where its results are; None for what leaves none. made: what it
    makes for others, removed before it begins. in_background: it runs beside others and is halted for timed ones.
    begun: what one that resumes leaves once it has begun; its folder is removed where that lacks it."""

    name: str
    module: str
    arguments: tuple[str, ...]
    minutes: float
    timed: bool = False
    needs: tuple[str, ...] = ()
    out: Path | None = None
    made: tuple[Path, ...] = ()
    in_background: bool = False
    begun: Path | None = None

    @property
    def seconds(self) -> float:
        return _SECONDS * self.minutes

    @property
    def longest_seconds(self) -> float:
        return 2 * self.seconds


@dataclass(frozen=True)
class Scale:
    """How large a run is. minutes: of the whole. shape: of the target that is trained, and judged by so many prompts of
    each kind. conversations: to train draft models on. tested: the files with tests for a GPU. budgets: expected
    minutes of each part but the training of the target."""

    device: str
    quick: bool
    minutes: float
    shape: str
    judged: int
    conversations: int
    tested: tuple[str, ...]
    budgets: Mapping[str, float]

    @property
    def training_minutes(self) -> float:
        """Of the target: what is left by those that it does not run beside."""
        alone = sum(minutes for name, minutes in self.budgets.items() if name not in _BESIDE_TRAINING)
        return max(_LEAST_TRAINING, self.minutes - alone - _AROUND_TRAINING)


GPU = Scale(
    device="cuda",
    quick=False,
    minutes=25,
    shape="large",
    judged=8,
    conversations=6000,
    tested=(
        "tests/test_pretended_gpu.py",
        *(f"tests/common/models/test_{name}.py" for name in ("attention_cuda", "packed", "pass_graphs")),
        *("tests/server/models/test_draft_models.py", "tests/server/test_engine.py"),
    ),
    budgets={
        **{"tests": 0.6, "data": 0.2, "engine-qwen": 1.3, "engine-llama": 1.5, "sizes": 4.5, "load-llama": 1.2},
        **{"moa": 1.3, "eagle": 1.3, "single-device": 1.7, "load": 4},
    },
)
REHEARSAL = Scale(
    device="cpu",
    quick=True,
    minutes=7.5,
    shape="shipped",
    judged=4,
    conversations=200,
    tested=("tests/test_pretended_gpu.py", "tests/common/models/test_attention_cuda.py"),
    budgets={
        **{"tests": 0.5, "data": 0.2, "engine-qwen": 0.3, "engine-llama": 0.3, "sizes": 2.2, "load-llama": 0.5},
        **{"moa": 0.6, "eagle": 0.6, "single-device": 0.5, "load": 1},
    },
)
"""The same in small, on the CPU of any machine."""


def make_parts(scale: Scale, out: Path, work: Path, root: Path) -> tuple[Part, ...]:
    """All parts, in the order in which they run: first what needs no trained target, so that it is there if the machine
    is taken away. out: gets a folder for each experiment; work: holds checkpoints, texts and draft models; root: where
    they run, so that what lies below it is shown without the path of this machine."""
    random, trained, data = work / "random", work / "trained", work / "data.jsonl"
    on_device = ("--device", scale.device)

    def shown(path: Path) -> str:
        return str(path.relative_to(root) if path.is_relative_to(root) else path)

    def experiment(name: str, experiment: str, *options: str, needs: tuple[str, ...] = ()) -> Part:
        size = ("--quick",) if scale.quick else ()
        arguments = ("run", experiment, *options, *size, *on_device, "--out", shown(out / name))
        return Part(name, LAB, arguments, scale.budgets[name], timed=True, needs=needs, out=out / name)

    def draft(kind: str, *options: str) -> Part:
        minutes, folder = scale.budgets[kind], trained / kind
        given = ("--target", shown(trained / "target"), "--data", shown(data), "--minutes", f"{minutes / 2:g}")
        arguments = (kind, *given, *on_device, *options, "--out", shown(folder))
        made = (folder, folder.with_suffix(".work"))
        return Part(kind, TRAIN, arguments, minutes, needs=("target", "data"), made=made)

    minutes = scale.training_minutes
    length = ("--minutes", f"{minutes:g}", "--tokens", "1e6", "--judged", str(scale.judged))
    target = ("demo", "--out", shown(trained), "--shape", scale.shape, *on_device, *length)
    models = ("--models", shown(trained), "--draft", "lookup", "--draft", "eagle", "--draft", "moa")
    shapes = ("--target", QWEN, "--target", LLAMA, "--draft", "lookup", "--draft", "moa-n0", "--models", shown(random))
    return (
        Part(
            "target",
            TRAIN,
            target,
            minutes + _AROUND_TRAINING,
            in_background=True,
            begun=trained / "work" / "settings.json",
        ),
        Part("tests", TESTS, ("-m", "cuda", *scale.tested), scale.budgets["tests"]),
        Part(
            "data",
            TRAIN,
            ("demo-data", "--out", shown(data), "--count", str(scale.conversations)),
            scale.budgets["data"],
            made=(data,),
        ),
        experiment("engine-qwen", "engine", "--target", QWEN),
        experiment("engine-llama", "engine", "--target", LLAMA),
        replace(experiment("sizes", "sizes", *shapes), made=(random,)),
        experiment("load-llama", "load-timed", "--models", shown(random / LLAMA), needs=("sizes",)),
        draft("moa", "--layers", "0"),
        draft("eagle"),
        experiment("single-device", "single-device", *models, needs=("target", "moa", "eagle")),
        experiment("load", "load-timed", "--models", shown(trained), needs=("target", "moa")),
    )


def left_out(part: Part, states: Mapping[str, State]) -> str:
    """The first of the parts which it needs that did not end well; empty where there is none."""
    return next((name for name in part.needs if name in states and states[name] not in USABLE), "")


def next_part(
    parts: Sequence[Part], states: Mapping[str, State], running: Collection[str], seconds: float
) -> Part | None:
    """The first that may begin now and end within so many seconds; None where none may."""
    return next(
        (
            part
            for part in parts
            if part.name not in states
            and part.name not in running
            and all(states.get(name) in USABLE for name in part.needs)
            and (part.in_background or part.seconds <= seconds)
        ),
        None,
    )
