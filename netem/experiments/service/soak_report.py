"""The table and the plot of `soak`: verdicts, growth of both processes, and what is left on the server."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from netem.experiments.experiment import Report
from netem.experiments.service.apps import DIFFERENT, FAILED, IDENTICAL, LEFT, Apps
from netem.experiments.service.link_faults import KINDS
from netem.experiments.service.process_monitor import WARM_UP_SHARE, Growth, ProcessReading, growth
from netem.experiments.torture.plan import FaultKind

MOST_GROWTH = 0.05
_LONG_S = 600.0
"""In so long a run every kind of fault is expected."""
HEADINGS = ("process", "MB before", "MB after", "growth", "threads", "open files")


@dataclass(frozen=True, slots=True)
class SoakResult:
    """faults: injected into the link, by kind. server, idle: the final counters of the server, and of one without
    requests."""

    apps: Apps
    faults: Counter[FaultKind]
    readings: Mapping[str, list[ProcessReading]]
    server: Mapping[str, Any]
    idle: Mapping[str, Any]
    seconds: float


def make_report(result: SoakResult, apps: int, max_new_tokens: int) -> Report:
    verdicts = result.apps.verdicts
    grown = {name: growth(readings) for name, readings in result.readings.items()}
    left = {
        name: held - (result.idle["held"][name] if name == "tasks" else 0)
        for name, held in result.server["held"].items()
    }
    twice = result.server["recomputed_tokens"]
    first_s = median(result.apps.first_seconds) if result.apps.first_seconds else None
    return Report(
        title="Half an hour of apps over a link that breaks",
        headings=HEADINGS,
        rows=[_cells(name, each) for name, each in grown.items()],
        remarks=(
            f"{apps} apps ask `outrider serve` by OpenAI's client for {result.seconds / 60:.0f} minutes: answers of "
            f"{max_new_tokens} tokens at most, half of them drawn with a seed; of those that no app leaves a quarter "
            "is asked for whole.",
            f"{verdicts.total()} answers: {verdicts[IDENTICAL]} identical to transformers' own `generate`, "
            f"{verdicts[LEFT]} left in mid-answer by their app (what had come was the beginning of the right text), "
            f"{verdicts[DIFFERENT]} different, {verdicts[FAILED]} failed. {result.apps.repeats} First text after "
            f"{'-' if first_s is None else f'{first_s:.2f}'} s (median).",
            f"Meanwhile the link was cut {result.faults.total()} times: "
            f"{', '.join(f'{count} {kind}' for kind, count in result.faults.items())}.",
            f"Before and after: medians of the first and the last third of what follows the first {WARM_UP_SHARE:.0%}.",
            f"Left on the server at the end: {', '.join(f'{count} {name}' for name, count in left.items())} (tasks "
            f"beyond those of an idle one); positions computed twice: {twice}.",
        ),
        results={
            "verdicts": dict(verdicts),
            "repeated": result.apps.repeated,
            "troubles": result.apps.troubles,
            "cuts": {kind.value: count for kind, count in result.faults.items()},
            "seconds": result.seconds,
            "first_seconds": first_s,
            "growth": {name: {**asdict(each), "share": each.share} for name, each in grown.items()},
            "left": left,
            "server": result.server,
            "readings": {name: [asdict(each) for each in readings] for name, readings in result.readings.items()},
        },
        faults=[
            *result.apps.troubles[:20],
            *([] if verdicts.total() > verdicts[FAILED] else ["no request was answered"]),
            *([] if result.faults.total() else ["the link was never cut"]),
            *(
                f"the link was never cut by '{kind}'"
                for kind in KINDS
                if result.faults.total() and result.seconds >= _LONG_S and not result.faults[kind]
            ),
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
