"""The table and the plot of `engine`. It may not know how anything is measured."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from netem.experiments.experiment import Report

LONGEST_STEPPED = 8192
"""Up to this context one session must not be slower than transformers' cached step."""
MOST_OF_FLOOR = 2.5
"""Times the floor that eight sessions may take."""
MOST_PLANNING_MS = 1.0
"""Of the server's own work for a pass over 16 sessions with trees of 64."""


@dataclass(frozen=True)
class Point:
    """`sessions` at `context` tokens each, of which a pass computes `rows`: a root and a tree below it."""

    sessions: int
    context: int
    rows: int


@dataclass(frozen=True)
class PointTimes:
    """Medians in milliseconds, of processor time on a CPU; None where a system was not measured.

    ours_ms: one pass over all sessions. replayed_ms: the same as a CUDA graph. one_by_one_ms: a pass for each.
    floor_ms: reading the weights and all K/V once. planning_ms: what the server does for a pass without the model's
    work; packing_ms: the part of it in the packed row.
    """

    point: Point
    kv_heads: int
    ours_ms: float
    one_by_one_ms: float
    floor_ms: float
    transformers_ms: float | None
    batching_ms: float | None
    planning_ms: float
    packing_ms: float
    replayed_ms: float | None = None

    @property
    def tokens_per_second(self) -> float:
        """Of plain decoding: a token of each session in a pass."""
        return self.point.sessions / self.fastest_ms * 1000

    @property
    def fastest_ms(self) -> float:
        """Of one pass over all sessions."""
        return self.ours_ms if self.replayed_ms is None else min(self.ours_ms, self.replayed_ms)


@dataclass(frozen=True)
class Measured:
    """What was measured: the model's shape in words, the device and its name, and the dtype."""

    shape: str
    device: str = "cpu"
    device_name: str = "the processor"
    dtype: str = "float32"

    @property
    def clock(self) -> str:
        """Which time is meant."""
        if self.device == "cpu":
            return "processor time of one core"
        return f"time on {self.device_name}, each taken when all that was launched had ended"


def make_report(measured: Sequence[PointTimes], of: Measured, *, judged: bool) -> Report:
    """Only where `judged` says so, a run that misses the bounds is not valid: they are meant for models in which
    memory costs more than calls."""
    growth = {
        f"{name}, {kv_heads} K/V heads": exponent(of_kind)
        for kv_heads in sorted({each.kv_heads for each in measured}, reverse=True)
        for name, of_kind in _growing([each for each in measured if each.kv_heads == kv_heads]).items()
        if len(of_kind) > 2
    }
    return Report(
        title="Passes against memory and transformers",
        headings=(
            *("K/V heads", "sessions", "context", "rows", "pass", "as a graph", "tokens/s", "of the floor"),
            *("one by one", "cached step", "continuous batching", "own work", "of it packing"),
        ),
        rows=[_row(each) for each in measured],
        remarks=(
            f"Random weights, {of.shape}, {of.dtype}. Milliseconds of {of.clock}, medians of turns in which "
            "all systems but continuous batching run one after another.",
            "The floor is the time to read the weights and the K/V of all contexts once, at the speed at which 256 MB "
            "are summed in the same turns. As a graph: the pass as `--cuda-graphs` runs it; tokens/s and the multiple "
            "of the floor are those of the faster of both. One by one: a pass for each session. Cached step: "
            "transformers' own forward with a `DynamicCache`, batched over the sessions. Continuous batching: a step "
            "of `generate_batch`, by the difference of the medians of two answers; it computes its prompts, so that "
            "it is measured up to 2,048 of their tokens.",
            "Own work: what the server does for a pass from its plan over the packed row, the rules' walks and the "
            "replies, with real sessions and a model that computes nothing; a pass above holds the packing alone. "
            "Whole trees take part, of which three nodes are accepted.",
            "Exponents with which the time of a pass grows over the upper half of the sizes: "
            + (", ".join(f"{value:.2f} ({name})" for name, value in growth.items()) or "too few points")
            + ".",
        ),
        results={
            "growth": growth,
            "clock": of.clock,
            "rows": [
                asdict(each.point)
                | {name: value for name, value in asdict(each).items() if name != "point"}
                | {"device": of.device, "dtype": of.dtype, "tokens_per_second": each.tokens_per_second}
                for each in measured
            ],
        },
        faults=find_faults(measured) if judged else (),
    )


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Of the power of the size with which milliseconds grow: the slope of both logarithms over the upper half of the
    sizes, where what a pass costs at any size matters least."""
    (near, near_ms), (far, far_ms) = points[len(points) // 2], points[-1]
    return math.log(far_ms / near_ms) / math.log(far / near)


def _growing(measured: Sequence[PointTimes]) -> dict[str, list[tuple[int, float]]]:
    """Times by context of one session, and by sessions of the context that most of them have."""
    plain = [each for each in measured if each.point.rows == 1]
    shortest = min((each.point.context for each in plain), default=0)
    return {
        "context": sorted((each.point.context, each.fastest_ms) for each in plain if each.point.sessions == 1),
        "sessions": sorted((each.point.sessions, each.fastest_ms) for each in plain if each.point.context == shortest),
    }


def _row(each: PointTimes) -> tuple[str, ...]:
    point = each.point
    return (
        str(each.kv_heads),
        str(point.sessions),
        f"{point.context:,}",
        str(point.rows),
        f"{each.ours_ms:,.1f}",
        _milliseconds(each.replayed_ms),
        f"{each.tokens_per_second:,.1f}",
        f"{each.fastest_ms / each.floor_ms:.2f}",
        f"{each.one_by_one_ms:,.1f}",
        _milliseconds(each.transformers_ms),
        _milliseconds(each.batching_ms),
        f"{each.planning_ms:.2f}",
        f"{each.packing_ms:.2f}",
    )


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def find_faults(measured: Sequence[PointTimes]) -> list[str]:
    faults = []
    for each in measured:
        point, name = each.point, f"{each.point.sessions} x {each.point.context:,} with {each.kv_heads} K/V heads"
        stepped = each.transformers_ms
        if stepped is not None and point.sessions == 1 and point.context <= LONGEST_STEPPED and each.ours_ms > stepped:
            faults.append(f"{name} takes {each.ours_ms:.1f} ms and transformers' step {stepped:.1f}")
        if (point.sessions, point.context, point.rows) == (8, 4096, 1) and each.ours_ms > MOST_OF_FLOOR * each.floor_ms:
            faults.append(f"{name} takes {each.ours_ms / each.floor_ms:.1f} times the floor")
        if (point.sessions, point.rows) == (16, 65) and each.planning_ms > MOST_PLANNING_MS:
            faults.append(f"{name} and trees of 64 takes {each.planning_ms:.1f} ms of the server's own work")
        if point.sessions > 1 and each.ours_ms > each.one_by_one_ms:
            faults.append(f"{name} in one pass takes longer than one by one")
    return faults
