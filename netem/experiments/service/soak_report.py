"""What a soak comes to: verdicts, what both processes held, and what was left."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from netem.experiments.experiment import Report
from netem.experiments.service.apps import DIFFERENT, FAILED, IDENTICAL, LEFT, Apps
from netem.experiments.service.gauges import WARM_UP, Growth, Reading, growth
from netem.experiments.torture.plan import Kind

MOST_GROWTH = 0.05
HEADINGS = ("process", "MB before", "MB after", "growth", "threads", "open files")


@dataclass(frozen=True, slots=True)
class Soaked:
    """`server` and `idle` are the last words of the server and of one that was asked nothing."""

    apps: Apps
    cuts: Counter[Kind]
    readings: Mapping[str, list[Reading]]
    server: Mapping[str, Any]
    idle: Mapping[str, Any]
    seconds: float


def make_report(soaked: Soaked, apps: int, longest: int) -> Report:
    verdicts = soaked.apps.verdicts
    grown = {name: growth(readings) for name, readings in soaked.readings.items()}
    left = {
        name: held - (soaked.idle["held"][name] if name == "tasks" else 0)
        for name, held in soaked.server["held"].items()
    }
    twice = soaked.server["recomputed_tokens"]
    return Report(
        title="Half an hour of apps over a link that breaks",
        headings=HEADINGS,
        rows=[_cells(name, each) for name, each in grown.items()],
        remarks=(
            f"{apps} apps ask `outrider serve` by OpenAI's client for {soaked.seconds / 60:.0f} minutes: answers of "
            f"{longest} tokens at most, half of them drawn with a seed, a quarter asked for whole.",
            f"{verdicts.total()} answers: {verdicts[IDENTICAL]} identical to transformers' own `generate`, "
            f"{verdicts[LEFT]} left in mid-answer by their app (what had come was the beginning of the right text), "
            f"{verdicts[DIFFERENT]} different, {verdicts[FAILED]} failed. First text after "
            f"{median(soaked.apps.first_seconds):.2f} s (median).",
            f"Meanwhile the link was cut {soaked.cuts.total()} times: "
            f"{', '.join(f'{count} {kind}' for kind, count in soaked.cuts.items())}.",
            f"Before and after: medians of the first and the last third of what follows the first {WARM_UP:.0%}.",
            f"Left on the server at the end: {', '.join(f'{count} {name}' for name, count in left.items())} (tasks "
            f"beyond those of an idle one); positions computed twice: {twice}.",
        ),
        results={
            "verdicts": dict(verdicts),
            "troubles": soaked.apps.troubles,
            "cuts": {kind.value: count for kind, count in soaked.cuts.items()},
            "seconds": soaked.seconds,
            "first_seconds": median(soaked.apps.first_seconds),
            "growth": {name: {**asdict(each), "share": each.share} for name, each in grown.items()},
            "left": left,
            "server": soaked.server,
            "readings": {name: [asdict(each) for each in readings] for name, readings in soaked.readings.items()},
        },
        draw=lambda axes: _draw(axes, soaked.readings),
        faults=[
            *soaked.apps.troubles[:20],
            *(
                f"{name} grew by {each.share:.1%}, more than {MOST_GROWTH:.0%}"
                for name, each in grown.items()
                if each.share > MOST_GROWTH
            ),
            *(
                f"{name} has {each.threads[1] - each.threads[0]} more threads and {each.files[1] - each.files[0]} more "
                "open files than at first"
                for name, each in grown.items()
                if each.threads[1] > each.threads[0] or each.files[1] > each.files[0] + 2
            ),
            *(f"{count} {name} are left on the server" for name, count in left.items() if count > 0),
            *([f"{twice} committed positions went through the target twice"] if twice else []),
        ],
    )


def _cells(name: str, each: Growth) -> list[str]:
    return [
        name,
        f"{each.before / 1e6:.0f}",
        f"{each.after / 1e6:.0f}",
        f"{each.share:+.1%}",
        f"{each.threads[0]} to {each.threads[1]}",
        f"{each.files[0]} to {each.files[1]}",
    ]


def _draw(axes: Any, readings: Mapping[str, Sequence[Reading]]) -> None:
    for name, those in readings.items():
        axes.plot([each.seconds / 60 for each in those], [each.bytes / 1e6 for each in those], label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes")
    axes.set_ylabel("resident memory, MB")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
