"""What a tortured run comes to: verdicts by rule, waits by kind of cut, and what is left on the server."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median, quantiles
from typing import Any

from netem.experiments.exactness import NEAR_TIE
from netem.experiments.experiment import Report
from netem.experiments.torture.fault_injector import BROKEN_OFF, Outcome, Torment
from netem.experiments.torture.plan import LONGEST, Kind

VERDICTS = ("identical", "near-tie", "different", BROKEN_OFF)
_FAULTY = ("different", BROKEN_OFF)
_ENOUGH = 200
"""Answers among which every kind of cut is to be expected."""
HEADINGS = ("", "answers", *VERDICTS, "retracted", "cuts", "in mid-answer", "reconnects", "median s", "p95 s")

_IN_WORDS = {
    Kind.RESET: "both sockets are closed at once",
    Kind.BLACKHOLE: "nothing comes through for 0.5 to 3 s, and nobody is told",
    Kind.MOVE: "the next connection comes from another address, and the old one falls silent for good",
    Kind.KILL: "SIGKILL to the server; another process takes its place, 0 to 2 s later or when it has started",
}


def make_report(torment: Torment, planned: int, server: Mapping[str, Any], idle: Mapping[str, Any]) -> Report:
    """`planned` answers were to be made; `server` and `idle` are the last words of the server and of one that was asked
    nothing."""
    outcomes = torment.outcomes
    waits = {kind: [s for outcome in outcomes for by, s in outcome.waits if by is kind] for kind in Kind}
    hits = Counter[Kind]()
    for outcome in outcomes:
        hits.update(outcome.hits)
    rules = {
        rule: [outcome for outcome in outcomes if outcome.rule == rule]
        for rule in dict.fromkeys(outcome.rule for outcome in outcomes)
    }
    twice = server["recomputed_tokens"]
    left = {name: held - (idle["held"][name] if name == "tasks" else 0) for name, held in server["held"].items()}
    return Report(
        title="Answers under cuts at random moments",
        headings=HEADINGS,
        rows=[
            *(_rule_cells(rule, those) for rule, those in rules.items()),
            *(_kind_cells(kind, torment.made[kind], hits[kind], waits[kind]) for kind in Kind),
        ],
        remarks=(
            f"{len(outcomes)} answers of {LONGEST} tokens at most, each cut 1 to 5 times; demo target in float32, "
            f"passes of at least 60 ms, `moa` and `lookup` drafters, several answers at a time over a proxy each.",
            *(f"{kind}: {words}." for kind, words in _IN_WORDS.items()),
            "'identical' is to transformers' own `generate` (with the same noise for coupled); a near-tie is a first "
            f"difference where the reference's two best scores are within {NEAR_TIE:g}.",
            "'retracted' counts tokens that were shown as final and are not in the answer. A killed server is one cut "
            "and hits every answer that is being made.",
            "Seconds are from the moment when the link was back to the next final token, over a new stream where the "
            "old one was lost: for a move they hold the time in which the client finds out. Cuts that overlap are left "
            "out of them.",
            f"Left on the server at the end: {', '.join(f'{count} {name}' for name, count in left.items())} (tasks "
            f"beyond those of an idle one); positions computed twice: {twice}.",
            "The seed gives the same questions and the same cuts; when they meet an answer depends on real time.",
        ),
        results={
            "verdicts": {rule: dict(Counter(outcome.verdict for outcome in those)) for rule, those in rules.items()},
            "retracted": sum(outcome.retracted for outcome in outcomes),
            "reconnects": sum(outcome.reconnects for outcome in outcomes),
            "cuts": {kind.value: torment.made[kind] for kind in Kind},
            "hits": {kind.value: hits[kind] for kind in Kind},
            "seconds": {kind.value: _spread(waits[kind]) for kind in Kind},
            "seconds_of_all": _spread([seconds for each in waits.values() for seconds in each]),
            "drafts": dict(Counter(outcome.draft for outcome in outcomes)),
            "left": left,
            "server": server,
            "unlike": [_told(outcome) for outcome in outcomes if outcome.verdict != "identical"],
        },
        draw=lambda axes: _draw(axes, waits),
        faults=[
            *(_fault(outcome) for outcome in outcomes if outcome.retracted or outcome.verdict in _FAULTY),
            *([f"{planned - len(outcomes)} answers were not begun in time"] if len(outcomes) < planned else []),
            *(f"nothing was cut by '{kind}'" for kind in Kind if planned >= _ENOUGH and not torment.made[kind]),
            *(f"{count} {name} are left on the server" for name, count in left.items() if count > 0),
            *([f"{twice} committed positions went through the target twice"] if twice else []),
        ],
    )


def _fault(outcome: Outcome) -> str:
    what = f"answer {outcome.generation.index} ({outcome.rule}, {outcome.draft}) is {outcome.verdict}"
    return f"{what}, {outcome.retracted} final tokens of it were retracted: {outcome.why}"


def _told(outcome: Outcome) -> dict[str, Any]:
    """What it takes to ask the same again."""
    return {
        "generation": asdict(outcome.generation),
        "rule": outcome.rule,
        "draft": outcome.draft,
        "verdict": outcome.verdict,
        "why": outcome.why,
    }


def _rule_cells(rule: str, outcomes: Sequence[Outcome]) -> list[str]:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    hits = sum(sum(outcome.hits.values()) for outcome in outcomes)
    waits = [seconds for outcome in outcomes for _, seconds in outcome.waits]
    return [
        rule,
        str(len(outcomes)),
        *(str(verdicts[each]) for each in VERDICTS),
        str(sum(outcome.retracted for outcome in outcomes)),
        "",
        str(hits),
        str(sum(outcome.reconnects for outcome in outcomes)),
        *_cells(waits),
    ]


def _kind_cells(kind: Kind, made: int, hits: int, waits: Sequence[float]) -> list[str]:
    blank = [""] * (2 + len(VERDICTS))
    return [kind.value, *blank, str(made), str(hits), "", *_cells(waits)]


def _cells(waits: Sequence[float]) -> list[str]:
    spread = _spread(waits)
    return [f"{spread['median']:.2f}", f"{spread['p95']:.2f}"] if waits else ["", ""]


def _spread(waits: Sequence[float]) -> dict[str, float]:
    if not waits:
        return {"count": 0}
    p95 = quantiles(waits, n=20, method="inclusive")[-1] if len(waits) > 1 else waits[0]
    return {"count": len(waits), "median": round(median(waits), 3), "p95": round(p95, 3), "most": round(max(waits), 3)}


def _draw(axes: Any, waits: Mapping[Kind, Sequence[float]]) -> None:
    """For each kind of cut, the share of answers that went on within so many seconds."""
    for kind, seconds in waits.items():
        shares = [(index + 1) / len(seconds) for index in range(len(seconds))]
        axes.step([0.0, *sorted(seconds)], [0.0, *shares], where="post", label=kind.value)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xlabel("seconds from the link's return to the next final token")
    axes.set_ylabel("share of the cuts")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
