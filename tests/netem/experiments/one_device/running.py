"""Runs an experiment as a person would, on tiny models, and checks what every report must have."""

import json
from types import ModuleType

from matplotlib.figure import Figure

from netem.experiments.experiment import Report, Request
from netem.experiments.one_device.bench import Tree

SMALL_TREE = Tree(2, 2, 4)
"""Where a test needs trees, and not those of a paper."""


async def run_quick(module: ModuleType, request: Request) -> Report:
    shares = []
    report = await module.measure(request, lambda doing, share: shares.append(share))
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    check(report)
    return report


def check(report: Report) -> None:
    assert report.rows
    assert all(len(row) == len(report.headings) for row in report.rows)
    assert all(remark.strip() for remark in report.remarks)
    json.dumps(report.results, allow_nan=False)
    figure = Figure(figsize=(9, 5), layout="constrained")
    report.draw(figure.subplots())
    figure.canvas.draw()
