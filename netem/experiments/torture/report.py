"""The table and the plot of `torture`: verdicts by rule, waits by kind of fault, and what is left on the server."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from common.counted import counted
from netem.experiments.experiment import Report
from netem.experiments.references import NEAR_TIE
from netem.experiments.torture.fault_injector import FaultedAnswer, FaultInjector
from netem.experiments.torture.outcome import MAX_NEW_TOKENS, VERDICTS, spread
from netem.experiments.torture.plan import FaultKind

_ENOUGH = 200
"""Among so many answers every kind of fault is expected."""
HEADINGS = ("", "answers", *VERDICTS, "retracted", "cuts", "in mid-answer", "reconnects", "median s", "p95 s")

_IN_WORDS = {
    FaultKind.RESET: "both sockets are closed at once",
    FaultKind.BLACKHOLE: "nothing comes through for 0.5 to 3 s, and nobody is told",
    FaultKind.MOVE: "the next connection comes from another address, and the old one falls silent for good",
    FaultKind.KILL: "SIGKILL to the server; another process takes its place, 0 to 2 s later or when it has started",
}


def make_report(injector: FaultInjector, planned: int, server: Mapping[str, Any], idle: Mapping[str, Any]) -> Report:
    """planned: how many answers were to be made. server, idle: the final counters of the last server, for killed ones
    leave none, and of one without requests."""
    outcomes = injector.outcomes
    waits = {kind: [s for outcome in outcomes for by, s in outcome.waits if by is kind] for kind in FaultKind}
    hits = Counter[FaultKind]()
    for outcome in outcomes:
        hits.update(outcome.hits)
    rules = {
        rule: [outcome for outcome in outcomes if outcome.rule == rule]
        for rule in dict.fromkeys(outcome.rule for outcome in outcomes)
    }
    untouched = sum(not any(outcome.hits.values()) for outcome in outcomes)
    twice = server["recomputed_tokens"]
    left = {name: held - (idle["held"][name] if name == "tasks" else 0) for name, held in server["held"].items()}
    return Report(
        title="Answers under cuts at random moments",
        headings=HEADINGS,
        rows=[
            *(_rule_cells(rule, those) for rule, those in rules.items()),
            *(_kind_cells(kind, injector.injected[kind], hits[kind], waits[kind]) for kind in FaultKind),
        ],
        remarks=(
            f"{len(outcomes)} answers of {MAX_NEW_TOKENS} tokens at most; demo target in float32, passes of at least "
            "60 ms, `moa` and `lookup` drafters, several answers at a time over a proxy each. For each 1 to 5 cuts are "
            f"drawn; those that an answer ends before are not made, so that {untouched} answers were never cut.",
            *(f"{kind}: {words}." for kind, words in _IN_WORDS.items()),
            "'identical' is to transformers' own `generate` (with the same noise for coupled); a near-tie is a first "
            f"difference where the reference's two best scores are within {NEAR_TIE:g}.",
            "'retracted' counts tokens that were shown as final and are not in the answer. A killed server is one cut "
            "and hits every answer that is being made.",
            "Seconds are from the moment when the link was back to the next final token, over a new stream where the "
            "old one was lost: for a move they hold the time in which the client finds out. Cuts that overlap are left "
            "out of them.",
            f"Of the last of {counted(injector.injected[FaultKind.KILL] + 1, 'server')}, which alone can be asked: "
            f"left at the end {', '.join(f'{count} {name}' for name, count in left.items())} (tasks beyond those of an "
            f"idle one); positions computed twice: {twice}.",
            "The seed gives the same questions and the same cuts; when they meet an answer depends on real time.",
        ),
        results={
            "verdicts": {rule: dict(Counter(outcome.verdict for outcome in those)) for rule, those in rules.items()},
            "retracted": sum(outcome.retracted for outcome in outcomes),
            "reconnects": sum(outcome.reconnects for outcome in outcomes),
            "never_cut": untouched,
            "cuts": {kind.value: injector.injected[kind] for kind in FaultKind},
            "hits": {kind.value: hits[kind] for kind in FaultKind},
            "seconds": {kind.value: _spread(waits[kind]) for kind in FaultKind},
            "seconds_of_all": _spread([seconds for each in waits.values() for seconds in each]),
            "drafts": dict(Counter(outcome.draft for outcome in outcomes)),
            "left": left,
            "server": server,
            "unlike": [_different(outcome) for outcome in outcomes if outcome.verdict != "identical"],
        },
        faults=[
            *(outcome.fault for outcome in outcomes if outcome.is_faulty),
            *([f"{planned - len(outcomes)} answers were not begun in time"] if len(outcomes) < planned else []),
            *(
                f"nothing was cut by '{kind}'"
                for kind in FaultKind
                if planned >= _ENOUGH and not injector.injected[kind]
            ),
            *(f"{count} {name} are left on the server" for name, count in left.items() if count > 0),
            *([f"{twice} committed positions went through the target twice"] if twice else []),
        ],
    )


def _different(outcome: FaultedAnswer) -> dict[str, Any]:
    """What is needed to repeat the answer."""
    return {"generation": outcome.plan.as_dict(), **outcome.as_dict()}


def _rule_cells(rule: str, outcomes: Sequence[FaultedAnswer]) -> list[str]:
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


def _kind_cells(kind: FaultKind, made: int, hits: int, waits: Sequence[float]) -> list[str]:
    blank = [""] * (2 + len(VERDICTS))
    return [kind.value, *blank, str(made), str(hits), "", *_cells(waits)]


def _cells(waits: Sequence[float]) -> list[str]:
    spread = _spread(waits)
    return [f"{spread['median']:.2f}", f"{spread['p95']:.2f}"] if waits else ["", ""]


def _spread(waits: Sequence[float]) -> dict[str, float]:
    return {"count": len(waits), **(spread(waits) if waits else {})}
