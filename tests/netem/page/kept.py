"""Kept runs that nobody ran, written as `outrider-lab run` writes them."""

from pathlib import Path

from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import Report
from netem.experiments.report import prepare, write_report

PROVENANCE = {
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "uncommitted_changes": True,
    "versions": {"python": "3.99.1", "torch": "9.8.7"},
    "models": {"target": {"name": "A `small` <target>", "fingerprint": "fedcba9876543210"}},
    "machine": {
        "processor": "Abacus 3000",
        "cores": 17,
        "system": "Linux 99.1",
        "tcp_congestion_control": "cubic",
        "load_average_before": 0.25,
    },
    "command": "outrider-lab run NAME --out DIR",
    "seed": 41,
    "started": "2026-01-02T03:04:05+00:00",
    "seconds": 98765,
}

EXACT = Report(
    title="Answers & their twins",
    headings=("drafter", "answers", "waited", "accept length", ""),
    rows=[
        ["lookup", "1,200", "900 ms", "2.50 (2.25-2.75)", "none < all"],
        ["moa, N=0", "75", "1.5 s", "**10.25 (9.50-11.00)**", ""],
        ["eagle", "300", "20 ms", "", "x"],
    ],
    remarks=("read `this` & that", "and **this**"),
    results={"lookup, eager": {"identical": 1200}, "moa, eager": {"identical": 70, "near-tie": 5}},
)

ROLLING = Report(
    title="Servers replaced",
    headings=("drain", "restarts"),
    rows=[["20 s", "4"]],
    remarks=("'moved' is moved",),
    results={"verdicts": {"identical": 3, "failed": 1}, "restarts": 4, "moved": {"20": 0}},
    faults=("it rained <cats>", "and snowed"),
)

REPORTS = {"exactness": EXACT, "rolling": ROLLING}


def keep_runs(folder: Path) -> Path:
    for name, report in REPORTS.items():
        prepare(folder / name)
        origin = PROVENANCE | {"command": PROVENANCE["command"].replace("NAME", name)}
        write_report(EXPERIMENTS[name], report, origin, folder / name)
    return folder
